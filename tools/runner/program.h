// A program in memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <executorch/extension/module/module.h>

#include "tools/runner/arguments.h"
#include "tools/runner/values.h"

namespace runner {

class Program {
 public:
  // Loads a program and the method that is to run; all files are mapped, not read.
  //
  // Ends the process with a sentence if the runtime refuses it.
  Program(
      const Arguments::Program& arguments,
      const std::vector<std::string>& data,
      bool weight_cache);

  const std::string& path() const { return path_; }
  const std::string& method() const { return method_; }

  Inputs inputs(const std::vector<std::string>& files);

  // Runs the method once. The outputs lie in the program's memory until the next run.
  std::vector<executorch::runtime::EValue> run(const Inputs& inputs);

 private:
  std::string choose_method(const std::string& asked);
  void check_memory();

  std::string path_;
  std::unique_ptr<executorch::extension::Module> module_;
  std::string method_;
};

// Sets the number of threads that kernels and backends use together.
void set_threads(int count);

}  // namespace runner
