#include "tools/runner/engine/program.h"

#include <executorch/runtime/platform/runtime.h>

#include "tools/runner/base/fail.h"
#include "tools/runner/engine/runtime_error.h"

namespace runner {

using RuntimeProgram = executorch::runtime::Program;

Program::Program(const CheckedFiles& files, const MethodOptions& options)
    : path_(files.program->path()),
      options_(options),
      file_(files.program),
      loader_(files.program_bytes),
      data_(files.data, files.named_data) {
  set_stage("loading " + path_);
  executorch::runtime::runtime_init();
  // The whole check of the tables: costs little beside the weights, and catches most damage.
  auto program =
      RuntimeProgram::load(&loader_, RuntimeProgram::Verification::InternalConsistency);
  check(program.error(), path_ + " can't be loaded");
  program_ = std::make_unique<RuntimeProgram>(std::move(*program));
  for (size_t i = 0; i < program_->num_methods(); ++i) {
    const auto name = program_->get_method_name(i);
    check(name.error(), path_ + ": its methods can't be read");
    methods_.insert(*name);
  }
  if (methods_.empty()) {
    fail(path_ + " has no method.");
  }
  arenas_ = std::make_unique<ArenaMaker>(*program_, path_);
}

std::string Program::choose_method(const std::string& asked) const {
  const std::string by_default = methods_.size() == 1 ? *methods_.begin() : "forward";
  const std::string wanted = asked.empty() ? by_default : asked;
  if (!has(wanted)) {
    std::string list;
    for (const std::string& name : methods_) {
      list += (list.empty() ? "" : ", ") + name;
    }
    fail(path_ + " has no method \"" + wanted + "\"; its methods are: " + list +
         "; choose one with --method.");
  }
  return wanted;
}

executorch::runtime::MethodMeta Program::meta(const std::string& method) const {
  const auto meta = program_->method_meta(method.c_str());
  check(meta.error(), title(method) + " can't be read");
  return *meta;
}

Method& Program::method(const std::string& name) {
  std::unique_ptr<Method>& loaded = loaded_[name];
  if (loaded == nullptr) {
    const auto about = meta(name);
    loaded = std::make_unique<Method>(
        *program_, about, title(name), arenas_->make(about), &data_, options_);
  }
  return *loaded;
}

std::string Program::title(const std::string& method) const {
  return path_ + ": method \"" + method + "\"";
}

}  // namespace runner
