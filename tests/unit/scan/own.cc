// Registers an operator and a backend, and has names that look like others.

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/kernel/operator_registry.h>

namespace runtime = executorch::runtime;

// A class that is never registered: its name is in its type information only.
class VulkanBackend : public runtime::BackendInterface {
 public:
  bool is_available() const override { return true; }
  runtime::Result<runtime::DelegateHandle*> init(
      runtime::BackendInitContext&, runtime::FreeableBuffer*,
      runtime::ArrayRef<runtime::CompileSpec>) const override {
    return nullptr;
  }
  runtime::Error execute(runtime::BackendExecutionContext&, runtime::DelegateHandle*,
                         runtime::Span<runtime::EValue*>) const override {
    return runtime::Error::Ok;
  }
};

const char* volatile function_name = "Program::load_method";
const char* volatile message = "In own::once.out";

namespace {

void twice(runtime::KernelRuntimeContext&, runtime::Span<runtime::EValue*>) {}

VulkanBackend backend;
const runtime::Error with_backend = runtime::register_backend({"OwnBackend", &backend});
const runtime::Error with_operator = runtime::register_kernel(runtime::Kernel("own::twice.out", twice));

}  // namespace
