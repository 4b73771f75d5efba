#include "tools/runner/program.h"

#include <set>

#include "tools/runner/fail.h"
#include "tools/runner/memory.h"
#include "tools/runner/runtime_error.h"

// The wheel has the library of extension/threadpool/threadpool.h, and not the header.
namespace executorch::extension::threadpool {
class ThreadPool final {
 public:
  bool _unsafe_reset_threadpool(uint32_t new_thread_count);
};
ThreadPool* get_threadpool();
}  // namespace executorch::extension::threadpool

namespace runner {
namespace {

using executorch::extension::Module;
using executorch::runtime::BackendOptions;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::LoadBackendOptionsMap;
using RuntimeProgram = executorch::runtime::Program;

// As the backend registers itself and its options.
constexpr char kXnnpack[] = "XnnpackBackend";
constexpr char kWeightCache[] = "weight_cache_enabled";

}  // namespace

Program::Program(
    const Arguments::Program& arguments,
    const std::vector<std::string>& data,
    bool weight_cache)
    : path_(arguments.path) {
  set_stage("loading " + path_);
  module_ = std::make_unique<Module>(path_, data, Module::LoadMode::Mmap);
  BackendOptions<1> xnnpack;
  LoadBackendOptionsMap options;
  if (weight_cache) {
    check(xnnpack.set_option(kWeightCache, true), path_ + ": the weight cache can't be turned on");
    check(options.set_options(kXnnpack, xnnpack.view()),
          path_ + ": the weight cache can't be turned on");
  }
  // The whole check of the tables: costs little beside the weights, and catches most damage.
  check(module_->load(options, RuntimeProgram::Verification::InternalConsistency),
        path_ + " can't be loaded");
  method_ = choose_method(arguments.method);
  check_memory();
  set_stage("loading method \"" + method_ + "\" of " + path_);
  check(module_->load_method(method_), path_ + ": method \"" + method_ + "\" can't be loaded");
}

std::string Program::choose_method(const std::string& asked) {
  const auto found = module_->method_names();
  check(found.error(), path_ + ": its methods can't be read");
  const std::set<std::string> names(found->begin(), found->end());
  if (names.empty()) {
    fail(path_ + " has no method.");
  }
  const std::string by_default = names.size() == 1 ? *names.begin() : "forward";
  const std::string wanted = asked.empty() ? by_default : asked;
  if (names.count(wanted) == 0) {
    std::string list;
    for (const std::string& name : names) {
      list += (list.empty() ? "" : ", ") + name;
    }
    fail(path_ + " has no method \"" + wanted + "\"; its methods are: " + list +
         "; choose one with --method.");
  }
  return wanted;
}

// The runtime takes a damaged program's word for how much memory it plans.
void Program::check_memory() {
  const auto meta = module_->method_meta(method_);
  check(meta.error(), path_ + ": method \"" + method_ + "\" can't be read");
  const uint64_t available = available_memory();
  uint64_t planned = 0;
  for (size_t i = 0; i < meta->num_memory_planned_buffers() && planned <= available; ++i) {
    const auto size = meta->memory_planned_buffer_size(i);
    check(size.error(), path_ + ": the memory plan of method \"" + method_ + "\" can't be read");
    const uint64_t wanted = static_cast<uint64_t>(*size);
    planned = wanted > available ? UINT64_MAX : planned + wanted;
  }
  if (planned > available) {
    fail(path_ + ": method \"" + method_ +
         "\" plans more memory than is free; the program is damaged, or too big.");
  }
}

Inputs Program::inputs(const std::vector<std::string>& files) {
  set_stage("making the inputs of " + path_);
  const auto meta = module_->method_meta(method_);
  check(meta.error(), path_ + ": method \"" + method_ + "\" can't be read");
  return make_inputs(path_, *meta, files);
}

std::vector<EValue> Program::run(const Inputs& inputs) {
  set_stage("running method \"" + method_ + "\" of " + path_);
  auto outputs = module_->execute(method_, inputs.values);
  check(outputs.error(), path_ + ": method \"" + method_ + "\" failed");
  return *outputs;
}

void set_threads(int count) {
  namespace threadpool = executorch::extension::threadpool;
  threadpool::ThreadPool* pool = threadpool::get_threadpool();
  if (pool == nullptr || !pool->_unsafe_reset_threadpool(static_cast<uint32_t>(count))) {
    fail("the runtime doesn't let its threads be set to " + std::to_string(count) +
         "; leave --threads out.");
  }
}

}  // namespace runner
