// The runner as a shared library that Java loads; see NativeRunner.java.

#include <jni.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "tools/runner/entry.h"

namespace {

// A command line from a byte[][]; empty: an exception is pending, or something is null.
std::vector<std::string> command_line(JNIEnv* env, jobjectArray arguments) {
  std::vector<std::string> words = {"runner"};
  const jsize count = arguments == nullptr ? 0 : env->GetArrayLength(arguments);
  for (jsize i = 0; i < count; ++i) {
    const auto bytes = static_cast<jbyteArray>(env->GetObjectArrayElement(arguments, i));
    if (env->ExceptionCheck() || bytes == nullptr) {
      return {};
    }
    std::string word(static_cast<size_t>(env->GetArrayLength(bytes)), '\0');
    env->GetByteArrayRegion(
        bytes, 0, static_cast<jsize>(word.size()), reinterpret_cast<jbyte*>(&word[0]));
    env->DeleteLocalRef(bytes);
    if (env->ExceptionCheck()) {
      return {};
    }
    words.push_back(std::move(word));
  }
  return words;
}

}  // namespace

// Java also searches the libraries that this one needs, and libexecutorch's needs classes that the app lacks.
extern "C" JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM*, void*) {
  return JNI_VERSION_1_6;
}

extern "C" JNIEXPORT void JNICALL Java_rulesexecutorch_runner_NativeRunner_runEncoded(
    JNIEnv* env, jclass, jobjectArray arguments, jint input, jint output) {
  std::vector<std::string> words = command_line(env, arguments);
  if (words.empty()) {
    // Java throws, or continues: the caller ends the process.
    return;
  }
  std::vector<char*> values;
  for (std::string& word : words) {
    values.push_back(&word[0]);
  }
  values.push_back(nullptr);
  if (input >= 0 && dup2(input, STDIN_FILENO) < 0) {
    _exit(1);
  }
  if (dup2(output, STDOUT_FILENO) < 0 || dup2(output, STDERR_FILENO) < 0) {
    // Nobody would see a message.
    _exit(1);
  }
  runner::main_of_runner(static_cast<int>(words.size()), values.data());
}
