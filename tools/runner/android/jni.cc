// The runner as a shared library that Java loads; see NativeRunner.java.

#include <jni.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tools/runner/entry.h"

namespace {

std::vector<std::string> strings(JNIEnv* env, jobjectArray array) {
  std::vector<std::string> all = {"runner"};
  const jsize count = env->GetArrayLength(array);
  for (jsize i = 0; i < count; ++i) {
    const auto item = static_cast<jstring>(env->GetObjectArrayElement(array, i));
    const char* text = env->GetStringUTFChars(item, nullptr);
    all.emplace_back(text);
    env->ReleaseStringUTFChars(item, text);
    env->DeleteLocalRef(item);
  }
  return all;
}

}  // namespace

// Java looks for it in the libraries that this one needs, too, and libexecutorch's wants classes
// that the app doesn't have.
extern "C" JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM*, void*) {
  return JNI_VERSION_1_6;
}

extern "C" JNIEXPORT void JNICALL Java_rulesexecutorch_runner_NativeRunner_run(
    JNIEnv* env, jclass, jobjectArray arguments, jint output) {
  std::vector<std::string> words = strings(env, arguments);
  std::vector<char*> values;
  for (std::string& word : words) {
    values.push_back(&word[0]);
  }
  values.push_back(nullptr);
  if (dup2(output, STDOUT_FILENO) < 0 || dup2(output, STDERR_FILENO) < 0) {
    // Nobody would see a message.
    _exit(1);
  }
  runner::main_of_runner(static_cast<int>(words.size()), values.data());
}
