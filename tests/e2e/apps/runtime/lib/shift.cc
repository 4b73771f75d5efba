// mine::shift.out: an operator that no program uses.
#include <executorch/extension/kernel_util/make_boxed_from_unboxed_functor.h>
#include <executorch/runtime/kernel/kernel_includes.h>

namespace {

using executorch::aten::Tensor;
using executorch::runtime::KernelRuntimeContext;

Tensor& shift_out(KernelRuntimeContext&, const Tensor& x, double by, Tensor& out) {
  const float* from = x.const_data_ptr<float>();
  float* to = out.mutable_data_ptr<float>();
  for (ssize_t i = 0; i < x.numel(); ++i) {
    to[i] = from[i] + static_cast<float>(by);
  }
  return out;
}

}  // namespace

EXECUTORCH_LIBRARY(mine, "shift.out", shift_out);
