// executorch_app.h for Java; see rulesexecutorch/Native.java. Java checks and guards, this only converts.

#include <jni.h>

#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "executorch_app.h"

namespace {

template <class T>
T* opened(jlong address) {
  return reinterpret_cast<T*>(static_cast<intptr_t>(address));
}

jlong address_of(const void* opened) {
  return static_cast<jlong>(reinterpret_cast<intptr_t>(opened));
}

// A byte[] as a text of C; Java's null is NULL.
class Text {
 public:
  Text(JNIEnv* env, jbyteArray bytes) : is_null_(bytes == nullptr) {
    if (!is_null_) {
      text_.resize(static_cast<size_t>(env->GetArrayLength(bytes)));
      env->GetByteArrayRegion(
          bytes, 0, static_cast<jsize>(text_.size()), reinterpret_cast<jbyte*>(&text_[0]));
    }
  }

  const char* get() const { return is_null_ ? nullptr : text_.c_str(); }

 private:
  bool is_null_;
  std::string text_;
};

// A byte[][] as texts of C.
class Texts {
 public:
  Texts(JNIEnv* env, jobjectArray texts) {
    const jsize count = texts == nullptr ? 0 : env->GetArrayLength(texts);
    for (jsize i = 0; i < count; ++i) {
      const auto bytes = static_cast<jbyteArray>(env->GetObjectArrayElement(texts, i));
      texts_.emplace_back(env, bytes);
      env->DeleteLocalRef(bytes);
    }
    for (const Text& text : texts_) {
      pointers_.push_back(text.get());
    }
  }

  const char* const* get() const { return pointers_.data(); }
  size_t size() const { return pointers_.size(); }

 private:
  std::vector<Text> texts_;
  std::vector<const char*> pointers_;
};

// nullptr: an exception is pending.
jbyteArray to_bytes(JNIEnv* env, const char* text, size_t length) {
  const auto size = static_cast<jsize>(length);
  const jbyteArray bytes = env->NewByteArray(size);
  if (bytes != nullptr) {
    env->SetByteArrayRegion(bytes, 0, size, reinterpret_cast<const jbyte*>(text));
  }
  return bytes;
}

jbyteArray to_bytes(JNIEnv* env, const char* text) {
  return to_bytes(env, text, strlen(text));
}

template <class Name>
jobjectArray to_texts(JNIEnv* env, size_t count, const Name& name) {
  const jclass type = env->FindClass("[B");
  const jobjectArray texts =
      type == nullptr ? nullptr : env->NewObjectArray(static_cast<jsize>(count), type, nullptr);
  for (size_t i = 0; texts != nullptr && i < count; ++i) {
    const char* const found = name(i);
    const jbyteArray text = to_bytes(env, found == nullptr ? "" : found);
    if (text == nullptr) {
      return nullptr;
    }
    env->SetObjectArrayElement(texts, static_cast<jsize>(i), text);
    env->DeleteLocalRef(text);
  }
  return texts;
}

// Throws a ProgramException if a function failed.
void check(JNIEnv* env, executorch_app_code code, const executorch_app_error& error) {
  if (code == EXECUTORCH_APP_OK || env->ExceptionCheck()) {
    return;
  }
  const jclass type = env->FindClass("rulesexecutorch/ProgramException");
  const jmethodID make = type == nullptr
      ? nullptr
      : env->GetStaticMethodID(type, "of", "(I[B)Lrulesexecutorch/ProgramException;");
  const jbyteArray sentence = make == nullptr ? nullptr : to_bytes(env, error.sentence);
  if (sentence == nullptr) {
    return;
  }
  const jobject exception =
      env->CallStaticObjectMethod(type, make, static_cast<jint>(code), sentence);
  if (!env->ExceptionCheck()) {
    env->Throw(static_cast<jthrowable>(exception));
  }
}

// An Answering.java, which hears an answer.
struct Answering {
  JNIEnv* env;
  jobject object;
  jmethodID hear;
  jmethodID end;
};

bool hear(const char* text, size_t size, void* user) {
  const auto* answering = static_cast<const Answering*>(user);
  JNIEnv* env = answering->env;
  const jbyteArray bytes = to_bytes(env, text, size);
  if (bytes == nullptr) {
    return false;
  }
  const jboolean goes_on = env->CallBooleanMethod(answering->object, answering->hear, bytes);
  const bool has_thrown = env->ExceptionCheck();
  env->DeleteLocalRef(bytes);
  return goes_on == JNI_TRUE && !has_thrown;
}

// The inputs of a run, whose memory is Java's.
class Inputs {
 public:
  Inputs(JNIEnv* env, jobjectArray dtypes, jobjectArray shapes, jobjectArray data)
      : dtypes_(env, dtypes) {
    static_assert(sizeof(jlong) == sizeof(int64_t), "JNI's long has 64 bits");
    for (size_t i = 0; i < dtypes_.size(); ++i) {
      const auto index = static_cast<jsize>(i);
      const auto shape = static_cast<jlongArray>(env->GetObjectArrayElement(shapes, index));
      std::vector<int64_t> sizes(static_cast<size_t>(env->GetArrayLength(shape)));
      env->GetLongArrayRegion(
          shape, 0, static_cast<jsize>(sizes.size()), reinterpret_cast<jlong*>(sizes.data()));
      env->DeleteLocalRef(shape);
      shapes_.push_back(std::move(sizes));
      const jobject buffer = env->GetObjectArrayElement(data, index);
      tensors_.push_back(
          {dtypes_.get()[i],
           shapes_[i].data(),
           shapes_[i].size(),
           env->GetDirectBufferAddress(buffer),
           static_cast<size_t>(env->GetDirectBufferCapacity(buffer)),
           nullptr});
      env->DeleteLocalRef(buffer);
    }
  }

  const executorch_app_tensor* get() const { return tensors_.data(); }
  size_t size() const { return tensors_.size(); }

 private:
  Texts dtypes_;
  std::vector<std::vector<int64_t>> shapes_;
  std::vector<executorch_app_tensor> tensors_;
};

// Sets three elements: dtype, shape, and a copy of the data. False: an exception is pending.
bool set_output(JNIEnv* env, jobjectArray outputs, jsize at, const executorch_app_tensor& tensor) {
  if (tensor.size > INT32_MAX) {
    const jclass type = env->FindClass("java/lang/OutOfMemoryError");
    if (type != nullptr) {
      env->ThrowNew(type, "An output has more than 2 GiB, which no ByteBuffer can have.");
    }
    return false;
  }
  const jclass type = env->FindClass("java/nio/ByteBuffer");
  const jmethodID allocate = type == nullptr
      ? nullptr
      : env->GetStaticMethodID(type, "allocateDirect", "(I)Ljava/nio/ByteBuffer;");
  const jobject data = allocate == nullptr
      ? nullptr
      : env->CallStaticObjectMethod(type, allocate, static_cast<jint>(tensor.size));
  if (env->ExceptionCheck()) {
    return false;
  }
  if (tensor.size > 0) {
    memcpy(env->GetDirectBufferAddress(data), tensor.data, tensor.size);
  }
  const auto rank = static_cast<jsize>(tensor.rank);
  const jstring dtype = env->NewStringUTF(tensor.dtype);
  const jlongArray shape = dtype == nullptr ? nullptr : env->NewLongArray(rank);
  if (shape == nullptr) {
    return false;
  }
  if (rank > 0) {
    env->SetLongArrayRegion(shape, 0, rank, reinterpret_cast<const jlong*>(tensor.shape));
  }
  const jobject parts[] = {dtype, shape, data};
  for (jsize i = 0; i < 3; ++i) {
    env->SetObjectArrayElement(outputs, at + i, parts[i]);
    env->DeleteLocalRef(parts[i]);
  }
  env->DeleteLocalRef(type);
  return true;
}

// Calls `body`; what C++ throws becomes an exception of Java, and a result that is 0.
template <class Body>
auto guarded(JNIEnv* env, const Body& body) -> decltype(body()) {
#if defined(__cpp_exceptions)
  try {
    return body();
  } catch (const std::exception& exception) {
    const jclass type = env->ExceptionCheck() ? nullptr : env->FindClass("java/lang/OutOfMemoryError");
    if (type != nullptr) {
      env->ThrowNew(type, exception.what());
    }
    return decltype(body())();
  }
#else
  (void)env;
  return body();
#endif
}

}  // namespace

#define NATIVE(result, name) \
  extern "C" JNIEXPORT result JNICALL Java_rulesexecutorch_Native_##name

// Java also searches the libraries that this one needs, and libexecutorch's needs classes that the app lacks.
extern "C" JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM*, void*) {
  return JNI_VERSION_1_6;
}

NATIVE(jlong, open)(
    JNIEnv* env,
    jclass,
    jbyteArray path,
    jbyteArray manifest,
    jobjectArray data,
    jboolean verify,
    jboolean weight_cache,
    jboolean no_weight_cache,
    jobjectArray variants,
    jobjectArray device,
    jbyteArray state) {
  return guarded(env, [&]() -> jlong {
    const Text manifest_text(env, manifest);
    const Texts files(env, data);
    const Texts forced(env, variants);
    const Texts facts(env, device);
    const Text state_text(env, state);
    const executorch_app_open_options options = {
        manifest_text.get(),
        files.get(),
        files.size(),
        verify == JNI_TRUE,
        weight_cache == JNI_TRUE,
        no_weight_cache == JNI_TRUE,
        nullptr,
        0,
        forced.get(),
        forced.size(),
        facts.get(),
        facts.size(),
        state_text.get()};
    executorch_app* app = nullptr;
    executorch_app_error error;
    check(env, executorch_app_open(Text(env, path).get(), &options, &app, &error), error);
    return address_of(app);
  });
}

NATIVE(void, close)(JNIEnv* env, jclass, jlong app) {
  return guarded(env, [&]() {
    executorch_app_close(opened<executorch_app>(app));
  });
}

NATIVE(jbyteArray, variant)(JNIEnv* env, jclass, jlong app, jbyteArray name) {
  return guarded(env, [&]() -> jbyteArray {
    const char* const found = executorch_app_variant(opened<executorch_app>(app), Text(env, name).get());
    return found == nullptr ? nullptr : to_bytes(env, found);
  });
}

NATIVE(jobjectArray, programNames)(JNIEnv* env, jclass, jlong address) {
  return guarded(env, [&]() -> jobjectArray {
    const auto* app = opened<executorch_app>(address);
    return to_texts(env, executorch_app_program_count(app), [app](size_t i) {
      return executorch_app_program_name(app, i);
    });
  });
}

NATIVE(jlong, openSession)(JNIEnv* env, jclass, jlong app, jbyteArray program) {
  return guarded(env, [&]() -> jlong {
    executorch_app_session* session = nullptr;
    executorch_app_error error;
    check(
        env,
        executorch_app_open_session(
            opened<executorch_app>(app), Text(env, program).get(), &session, &error),
        error);
    return address_of(session);
  });
}

NATIVE(void, closeSession)(JNIEnv* env, jclass, jlong session) {
  return guarded(env, [&]() {
    executorch_app_close_session(opened<executorch_app_session>(session));
  });
}

NATIVE(jobjectArray, methodNames)(JNIEnv* env, jclass, jlong address) {
  return guarded(env, [&]() -> jobjectArray {
    const auto* session = opened<executorch_app_session>(address);
    return to_texts(env, executorch_app_method_count(session), [session](size_t i) {
      return executorch_app_method_name(session, i);
    });
  });
}

NATIVE(jobjectArray, run)(
    JNIEnv* env,
    jclass,
    jlong session,
    jbyteArray method,
    jobjectArray dtypes,
    jobjectArray shapes,
    jobjectArray data) {
  return guarded(env, [&]() -> jobjectArray {
    const Inputs inputs(env, dtypes, shapes, data);
    const executorch_app_tensor* outputs = nullptr;
    size_t count = 0;
    executorch_app_error error;
    const executorch_app_code code = executorch_app_run(
        opened<executorch_app_session>(session),
        Text(env, method).get(),
        inputs.get(),
        inputs.size(),
        &outputs,
        &count,
        &error);
    check(env, code, error);
    const jclass type = code == EXECUTORCH_APP_OK ? env->FindClass("java/lang/Object") : nullptr;
    const jobjectArray array =
        type == nullptr ? nullptr : env->NewObjectArray(static_cast<jsize>(3 * count), type, nullptr);
    for (size_t i = 0; array != nullptr && i < count; ++i) {
      if (!set_output(env, array, static_cast<jsize>(3 * i), outputs[i])) {
        return nullptr;
      }
    }
    return array;
  });
}

NATIVE(jlong, openChat)(
    JNIEnv* env,
    jclass,
    jlong session,
    jbyteArray tokenizer,
    jbyteArray system,
    jboolean raw,
    jdouble temperature,
    jint seed,
    jint max_new_tokens) {
  return guarded(env, [&]() -> jlong {
    const Text tokenizer_text(env, tokenizer);
    const Text system_text(env, system);
    // A negative number is refused as one that is too large.
    const executorch_app_chat_options options = {
        tokenizer_text.get(),
        system_text.get(),
        raw == JNI_TRUE,
        temperature,
        static_cast<uint32_t>(seed),
        static_cast<uint32_t>(max_new_tokens),
        false,
        false};
    executorch_app_chat* chat = nullptr;
    executorch_app_error error;
    check(
        env,
        executorch_app_open_chat(opened<executorch_app_session>(session), &options, &chat, &error),
        error);
    return address_of(chat);
  });
}

NATIVE(void, closeChat)(JNIEnv* env, jclass, jlong chat) {
  return guarded(env, [&]() {
    executorch_app_close_chat(opened<executorch_app_chat>(chat));
  });
}

NATIVE(void, attach)(
    JNIEnv* env,
    jclass,
    jlong chat,
    jobjectArray dtypes,
    jobjectArray shapes,
    jobjectArray data) {
  return guarded(env, [&]() {
    const Inputs media(env, dtypes, shapes, data);
    executorch_app_error error;
    check(env, executorch_app_attach(opened<executorch_app_chat>(chat), media.get(), &error), error);
  });
}

NATIVE(void, say)(JNIEnv* env, jclass, jlong chat, jbyteArray message, jobject object) {
  return guarded(env, [&]() {
    const jclass type = env->GetObjectClass(object);
    const jmethodID on_text = env->GetMethodID(type, "hear", "([B)Z");
    const jmethodID on_end = on_text == nullptr ? nullptr : env->GetMethodID(type, "end", "([BJJDJD)V");
    if (on_end == nullptr) {
      return;
    }
    Answering answering = {env, object, on_text, on_end};
    executorch_app_answer answer;
    executorch_app_error error;
    const executorch_app_code code = executorch_app_say(
        opened<executorch_app_chat>(chat), Text(env, message).get(), hear, &answering, &answer, &error);
    check(env, code, error);
    const jbyteArray reason = env->ExceptionCheck() ? nullptr : to_bytes(env, answer.reason);
    if (reason != nullptr) {
      env->CallVoidMethod(
          object,
          answering.end,
          reason,
          static_cast<jlong>(answer.prompt_tokens),
          static_cast<jlong>(answer.tokens),
          answer.prefill_ms,
          static_cast<jlong>(answer.decode_tokens),
          answer.decode_ms);
    }
  });
}

NATIVE(void, stop)(JNIEnv* env, jclass, jlong chat) {
  return guarded(env, [&]() {
    executorch_app_stop(opened<executorch_app_chat>(chat));
  });
}

NATIVE(jlong, turns)(JNIEnv* env, jclass, jlong chat) {
  return guarded(env, [&]() -> jlong {
    return static_cast<jlong>(executorch_app_turns(opened<executorch_app_chat>(chat)));
  });
}

NATIVE(void, rewind)(JNIEnv* env, jclass, jlong chat, jlong turns) {
  return guarded(env, [&]() {
    executorch_app_error error;
    check(
        env,
        executorch_app_rewind(opened<executorch_app_chat>(chat), static_cast<size_t>(turns), &error),
        error);
  });
}

NATIVE(void, saveChat)(JNIEnv* env, jclass, jlong chat, jbyteArray path) {
  return guarded(env, [&]() {
    executorch_app_error error;
    check(
        env,
        executorch_app_save_chat(opened<executorch_app_chat>(chat), Text(env, path).get(), &error),
        error);
  });
}

NATIVE(void, restoreChat)(JNIEnv* env, jclass, jlong chat, jbyteArray path) {
  return guarded(env, [&]() {
    executorch_app_error error;
    check(
        env,
        executorch_app_restore_chat(opened<executorch_app_chat>(chat), Text(env, path).get(), &error),
        error);
  });
}

NATIVE(void, switchAdapter)(JNIEnv* env, jclass, jlong chat, jbyteArray program, jobjectArray data) {
  return guarded(env, [&]() {
    const Texts files(env, data);
    executorch_app_error error;
    check(
        env,
        executorch_app_switch_adapter(
            opened<executorch_app_chat>(chat), Text(env, program).get(), files.get(), files.size(), &error),
        error);
  });
}

NATIVE(jlong, countTokens)(JNIEnv* env, jclass, jlong chat, jbyteArray message) {
  return guarded(env, [&]() -> jlong {
    size_t count = 0;
    executorch_app_error error;
    check(
        env,
        executorch_app_count_tokens(
            opened<executorch_app_chat>(chat), Text(env, message).get(), &count, &error),
        error);
    return static_cast<jlong>(count);
  });
}

NATIVE(jlong, room)(JNIEnv* env, jclass, jlong chat) {
  return guarded(env, [&]() -> jlong {
    return static_cast<jlong>(executorch_app_room(opened<executorch_app_chat>(chat)));
  });
}
