// A program in memory.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include <executorch/runtime/executor/program.h>

#include "tools/runner/engine/arenas.h"
#include "tools/runner/engine/data_map.h"
#include "tools/runner/engine/mapped_loader.h"
#include "tools/runner/engine/method.h"
#include "tools/runner/files/file_check.h"

namespace runner {

class Program {
 public:
  // Loads a program; all files stay mapped, not read.
  //
  // Ends the process with a sentence if the runtime refuses it.
  Program(const CheckedFiles& files, const MethodOptions& options);

  const std::string& path() const { return path_; }
  const std::set<std::string>& methods() const { return methods_; }
  bool has(const std::string& method) const { return methods_.count(method) != 0; }

  // The method's name, or where `asked` is empty "forward" or the only one; ends the process with a
  // sentence if there is none.
  std::string choose_method(const std::string& asked) const;

  // Of a method that it has.
  executorch::runtime::MethodMeta meta(const std::string& method) const;

  // Of a method that it has; loaded when it is first asked for.
  Method& method(const std::string& name);

  // How sentences call a method.
  std::string title(const std::string& method) const;

 private:
  std::string path_;
  MethodOptions options_;
  std::shared_ptr<const MappedFile> file_;
  MappedLoader loader_;
  DataMap data_;
  std::unique_ptr<executorch::runtime::Program> program_;
  std::set<std::string> methods_;
  std::unique_ptr<ArenaMaker> arenas_;
  std::map<std::string, std::unique_ptr<Method>> loaded_;
};

}  // namespace runner
