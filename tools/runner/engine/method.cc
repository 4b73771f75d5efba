#include "tools/runner/engine/method.h"

#include "tools/runner/base/fail.h"
#include "tools/runner/engine/runtime_error.h"

namespace runner {
namespace {

using executorch::runtime::BackendOptions;
using executorch::runtime::EValue;
using executorch::runtime::LoadBackendOptionsMap;

// As the backend registers itself and its options.
constexpr char kXnnpack[] = "XnnpackBackend";
constexpr char kWeightCache[] = "weight_cache_enabled";

}  // namespace

Method::Method(
    const executorch::runtime::Program& program,
    const executorch::runtime::MethodMeta& meta,
    std::string name,
    std::unique_ptr<Arenas> arenas,
    const executorch::runtime::NamedDataMap* data,
    const MethodOptions& options)
    : name_(std::move(name)),
      arenas_(std::move(arenas)),
      structures_(std::make_unique<HeapAllocator>()),
      temporary_(std::make_unique<HeapAllocator>()),
      memory_(std::make_unique<executorch::runtime::MemoryManager>(
          structures_.get(), arenas_->allocator(), temporary_.get())) {
  set_stage("loading " + name_);
  BackendOptions<1> xnnpack;
  LoadBackendOptionsMap backends;
  // Said in any case: where nothing is, some builds of the runtime have it on.
  const std::string failed =
      name_ + ": the weight cache can't be turned " + (options.weight_cache ? "on" : "off");
  check(xnnpack.set_option(kWeightCache, options.weight_cache), failed);
  check(backends.set_options(kXnnpack, xnnpack.view()), failed);
  auto loaded = program.load_method(meta.name(), memory_.get(), options.tracer, data, &backends);
  check(loaded.error(), name_ + " can't be loaded");
  method_ = std::make_unique<executorch::runtime::Method>(std::move(*loaded));
}

std::vector<EValue> Method::run(const std::vector<EValue>& inputs) {
  set_stage("running " + name_);
  for (size_t i = 0; i < inputs.size(); ++i) {
    check(method_->set_input(inputs[i], i), name_ + " refuses its input " + std::to_string(i));
  }
  check(method_->execute(), name_ + " failed");
  std::vector<EValue> outputs(method_->outputs_size());
  check(method_->get_outputs(outputs.data(), outputs.size()),
        name_ + ": its outputs can't be read");
  return outputs;
}

}  // namespace runner
