// Backends that do not work, as without a driver. Names are as long as XnnpackBackend: tests change them in a program.

#include <stdexcept>

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/platform/log.h>

namespace {

using executorch::runtime::ArrayRef;
using executorch::runtime::Backend;
using executorch::runtime::BackendExecutionContext;
using executorch::runtime::BackendInitContext;
using executorch::runtime::BackendInterface;
using executorch::runtime::CompileSpec;
using executorch::runtime::DelegateHandle;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::Result;
using executorch::runtime::Span;

class Faulty final : public BackendInterface {
 public:
  explicit Faulty(bool is_available) : is_available_(is_available) {}

  bool is_available() const override { return is_available_; }

  Result<DelegateHandle*> init(BackendInitContext&, FreeableBuffer*, ArrayRef<CompileSpec>) const override {
    ET_LOG(Error, "no device found");
    throw std::runtime_error("no device");
  }

  Error execute(BackendExecutionContext&, DelegateHandle*, Span<EValue*>) const override {
    return Error::Internal;
  }

 private:
  bool is_available_;
};

Faulty unavailable(false);
Faulty throwing(true);
const auto registered = {
    executorch::runtime::register_backend(Backend{"UnavailableOne", &unavailable}),
    executorch::runtime::register_backend(Backend{"ThrowingOneOne", &throwing}),
};

}  // namespace
