#include "tools/runner/engine/program.h"

#include <algorithm>

#include <executorch/runtime/platform/runtime.h>

#include "tools/runner/base/checksum.h"
#include "tools/runner/base/process.h"
#include "tools/runner/engine/runtime.h"

namespace runner {
namespace {

using executorch::runtime::BackendOptions;
using executorch::runtime::EValue;
using executorch::runtime::LoadBackendOptionsMap;
using RuntimeMethod = executorch::runtime::Method;
using RuntimeProgram = executorch::runtime::Program;

// The backend's option.
constexpr char kWeightCache[] = "weight_cache_enabled";
// The runtime looks for a method among all of them.
constexpr size_t kMaxMethods = 1000;

}  // namespace

Result<std::unique_ptr<Method>> Method::load(
    const RuntimeProgram& program,
    const executorch::runtime::MethodMeta& meta,
    std::string name,
    std::unique_ptr<Arenas> arenas,
    const executorch::runtime::NamedDataMap* data,
    const MethodOptions& options) {
  set_stage("loading " + name);
  TRY(check_backends(meta, name));
  std::unique_ptr<Method> method(new Method(std::move(name), std::move(arenas)));
  BackendOptions<1> xnnpack;
  LoadBackendOptionsMap backends;
  // Always set: some builds of the runtime enable the cache by default.
  const std::string failed = method->name_ + ": the weight cache cannot be turned " +
      (options.weight_cache ? "on" : "off");
  TRY(check(xnnpack.set_option(kWeightCache, options.weight_cache), failed));
  TRY(check(backends.set_options(kXnnpack, xnnpack.view()), failed));
  auto loaded = program.load_method(meta.name(), &method->memory_, options.tracer, data, &backends);
  TRY(check(loaded.error(), method->name_ + " cannot be loaded"));
  method->method_ = std::make_unique<RuntimeMethod>(std::move(*loaded));
  return method;
}

Result<std::vector<EValue>> Method::run(const std::vector<EValue>& inputs) {
  set_stage("running " + name_);
  for (size_t i = 0; i < inputs.size(); ++i) {
    TRY(check(
        method_->set_input(inputs[i], i), name_ + " refuses its input " + std::to_string(i)));
  }
  TRY(check(method_->execute(), name_ + " failed"));
  std::vector<EValue> outputs(method_->outputs_size());
  TRY(check(
      method_->get_outputs(outputs.data(), outputs.size()), name_ + ": its outputs cannot be read"));
  return outputs;
}

Program::Program(const CheckedFiles& files, executorch::runtime::EventTracer* tracer)
    : path_(files.program->path()),
      lease_(files.lease),
      options_{lease_ != nullptr, tracer},
      file_(files.program),
      content_keys_(options_.weight_cache ? files.content_keys : ContentKeys()),
      loader_(files.program_bytes, content_keys_),
      data_files_(files.data),
      data_(files.data, files.named_data, content_keys_, options_.weight_cache),
      declared_(files.declared) {}

Result<std::unique_ptr<Program>> Program::load(
    const CheckedFiles& files,
    executorch::runtime::EventTracer* tracer) {
  std::unique_ptr<Program> program(new Program(files, tracer));
  TRY(program->load());
  return program;
}

Status Program::load() {
  set_stage("loading " + path_);
  executorch::runtime::runtime_init();
  // The full check of the tables: cheap compared to the weights, and finds most damage.
  auto program =
      RuntimeProgram::load(&loader_, RuntimeProgram::Verification::InternalConsistency);
  TRY(check(program.error(), path_ + " cannot be loaded"));
  program_ = std::make_unique<RuntimeProgram>(std::move(*program));
  if (program_->num_methods() == 0 || program_->num_methods() > kMaxMethods) {
    return error(path_ + " has " + std::to_string(program_->num_methods()) +
                 " methods, expected from 1 to " + std::to_string(kMaxMethods) + "; it is damaged.");
  }
  for (size_t i = 0; i < program_->num_methods(); ++i) {
    const auto name = program_->get_method_name(i);
    TRY(check(name.error(), path_ + ": its methods cannot be read"));
    methods_.insert(*name);
  }
  arenas_ = TRY(ArenaMaker::create(*program_, path_));
  return {};
}

Result<std::string> Program::choose_method(const std::string& asked) const {
  const std::string by_default = methods_.size() == 1 ? *methods_.begin() : "forward";
  const std::string chosen = asked.empty() ? by_default : asked;
  if (!has(chosen)) {
    std::string list;
    for (const std::string& name : methods_) {
      list += (list.empty() ? "" : ", ") + name;
    }
    return error(path_ + " has no method \"" + chosen + "\"; its methods are: " + list +
         "; choose one with --method.");
  }
  return chosen;
}

Result<executorch::runtime::MethodMeta> Program::meta(const std::string& method) const {
  const auto meta = program_->method_meta(method.c_str());
  TRY(check(meta.error(), title(method) + " cannot be read"));
  return *meta;
}

Result<Method*> Program::method(const std::string& name) {
  std::unique_ptr<Method>& loaded = loaded_[name];
  if (loaded == nullptr) {
    const auto about = TRY(meta(name));
    auto arenas = TRY(arenas_->make(about));
    loaded = TRY(Method::load(*program_, about, title(name), std::move(arenas), &data_, options_));
  }
  return loaded.get();
}

Result<std::vector<executorch::runtime::Span<uint8_t>>> Program::memory(const std::vector<std::string>& methods) {
  std::vector<executorch::runtime::Span<uint8_t>> all;
  for (const std::string& name : methods) {
    for (const auto& part : TRY(method(name))->memory()) {
      const bool is_known = std::any_of(
          all.begin(), all.end(), [&part](const auto& other) { return other.data() == part.data(); });
      if (part.size() > 0 && !is_known) {
        all.push_back(part);
      }
    }
  }
  return all;
}

const std::vector<DeclaredInput>& Program::declared(const std::string& method) const {
  static const std::vector<DeclaredInput> none;
  const auto found = declared_.find(method);
  return found == declared_.end() ? none : found->second;
}

std::string Program::identity() const {
  std::string sums = std::to_string(file_->crc32_of(file_->data(), file_->size()));
  for (const auto& file : data_files_) {
    for (const auto& [key, blob] : file->blobs()) {
      sums += " " + key + " " + std::to_string(file->crc32_of(key));
    }
  }
  return sha256(reinterpret_cast<const uint8_t*>(sums.data()), sums.size());
}

std::string Program::title(const std::string& method) const {
  return path_ + ": method \"" + method + "\"";
}

}  // namespace runner
