// Backends and kernels that a Python process answers for (emulated.py), in place of a device.
//
// The runtime calls a backend by an interface, and a kernel by a function without data. So each backend is an object
// with a number, and each kernel one of a table of functions, each of which knows its number. All calls go to one
// function of Python's, with the values as plain structures. They are valid during the call alone.
//
// Only the library of this machine has this file: what emulates a device is no part of an app.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/core/exec_aten/util/tensor_util.h>
#include <executorch/runtime/kernel/kernel_runtime_context.h>
#include <executorch/runtime/kernel/operator_registry.h>

extern "C" {

// As `_Value` in emulated.py.
struct executorch_emulated_value {
  int32_t tag;           // executorch::runtime::Tag.
  int32_t dtype;         // Of a tensor: its ScalarType.
  int64_t integer;       // Also a bool.
  double real;
  void* data;            // Of a tensor or a string.
  uint64_t size;         // Bytes of `data`, or the number of `items`.
  const int32_t* shape;  // Of a tensor.
  const uint8_t* order;  // Its dimensions, the one with the largest stride first.
  uint64_t rank;
  executorch_emulated_value* items;  // Of a list.
  const void* tensor;                // For executorch_emulated_resize.
};

// Returns a handle for `kind` kInit, otherwise 0; less: Python has an exception.
typedef int64_t (*executorch_emulated_call)(
    int32_t kind, int64_t number, const void* named_data, executorch_emulated_value* values, uint64_t count);
}

namespace runner {
namespace {

using executorch::aten::Tensor;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::NamedDataMap;
using executorch::runtime::Span;
using executorch::runtime::Tag;
using Value = executorch_emulated_value;

// As in emulated.py. Init has the payload and, for each compile spec, its key and its value.
enum Kind { kInit, kExecute, kDestroy, kKernel };

// Of upstream's Cadence there are 92.
constexpr size_t kMaxKernels = 256;

executorch_emulated_call call_python = nullptr;

Value of(Tag tag) {
  Value value = {};
  value.tag = static_cast<int32_t>(tag);
  return value;
}

Value of_bytes(const void* data, size_t size) {
  Value value = of(Tag::String);
  value.data = const_cast<void*>(data);
  value.size = size;
  return value;
}

Value of_integer(int64_t integer, Tag tag = Tag::Int) {
  Value value = of(tag);
  value.integer = integer;
  return value;
}

Value of_real(double real) {
  Value value = of(Tag::Double);
  value.real = real;
  return value;
}

Value of_tensor(const Tensor& tensor) {
  Value value = of(Tag::Tensor);
  value.dtype = static_cast<int32_t>(tensor.scalar_type());
  value.data = tensor.mutable_data_ptr();
  value.size = tensor.nbytes();
  value.shape = tensor.sizes().data();
  value.order = tensor.dim_order().data();
  value.rank = static_cast<uint64_t>(tensor.dim());
  value.tensor = &tensor;
  return value;
}

// The values of one call, and the items of their lists.
class Values {
 public:
  explicit Values(Span<EValue*> given) {
    for (EValue* value : given) {
      values_.push_back(of_evalue(*value));
    }
  }
  explicit Values(std::vector<Value> values) : values_(std::move(values)) {}

  int64_t send(Kind kind, int64_t number, const NamedDataMap* named_data = nullptr) {
    return call_python == nullptr ? -1 : call_python(kind, number, named_data, values_.data(), values_.size());
  }

 private:
  template <class List, class Convert>
  Value of_list(Tag tag, const List& list, const Convert& convert) {
    std::vector<Value>& items = lists_.emplace_back();
    for (const auto& item : list) {
      items.push_back(convert(item));
    }
    Value value = of(tag);
    value.items = items.data();
    value.size = items.size();
    return value;
  }

  Value of_evalue(EValue& value) {
    switch (value.tag) {
      case Tag::Tensor:
        return of_tensor(value.toTensor());
      case Tag::Int:
        return of_integer(value.toInt());
      case Tag::Bool:
        return of_integer(value.toBool(), Tag::Bool);
      case Tag::Double:
        return of_real(value.toDouble());
      case Tag::String:
        return of_bytes(value.toString().data(), value.toString().size());
      case Tag::ListInt:
        return of_list(value.tag, value.toIntList(), [](int64_t item) { return of_integer(item); });
      case Tag::ListBool:
        return of_list(value.tag, value.toBoolList(), [](bool item) { return of_integer(item, Tag::Bool); });
      case Tag::ListDouble:
        return of_list(value.tag, value.toDoubleList(), of_real);
      case Tag::ListTensor:
        return of_list(value.tag, value.toTensorList(), of_tensor);
      case Tag::ListOptionalTensor:
        return of_list(value.tag, value.toListOptionalTensor(), [](const auto& item) {
          return item.has_value() ? of_tensor(*item) : of(Tag::None);
        });
      default:
        return of(value.tag);
    }
  }

  std::vector<Value> values_;
  // Grows without moving its elements.
  std::deque<std::vector<Value>> lists_;
};

class Backend final : public executorch::runtime::BackendInterface {
 public:
  explicit Backend(int64_t number) : number_(number) {}

  bool is_available() const override { return true; }

  executorch::runtime::Result<executorch::runtime::DelegateHandle*> init(
      executorch::runtime::BackendInitContext& context,
      executorch::runtime::FreeableBuffer* payload,
      executorch::runtime::ArrayRef<executorch::runtime::CompileSpec> specs) const override {
    std::vector<Value> values = {of_bytes(payload->data(), payload->size())};
    for (const auto& spec : specs) {
      values.push_back(of_bytes(spec.key, strlen(spec.key)));
      values.push_back(of_bytes(spec.value.buffer, spec.value.nbytes));
    }
    const int64_t handle = Values(std::move(values)).send(kInit, number_, context.get_named_data_map());
    // Python has copied it.
    payload->Free();
    if (handle < 0) {
      return Error::DelegateInvalidCompatibility;
    }
    // NULL is no handle.
    return reinterpret_cast<executorch::runtime::DelegateHandle*>(handle + 1);
  }

  Error execute(
      executorch::runtime::BackendExecutionContext&,
      executorch::runtime::DelegateHandle* handle,
      Span<EValue*> values) const override {
    return Values(values).send(kExecute, number_of(handle)) < 0 ? Error::Internal : Error::Ok;
  }

  void destroy(executorch::runtime::DelegateHandle* handle) const override {
    Values(std::vector<Value>()).send(kDestroy, number_of(handle));
  }

 private:
  static int64_t number_of(executorch::runtime::DelegateHandle* handle) {
    return reinterpret_cast<int64_t>(handle) - 1;
  }

  int64_t number_;
};

template <size_t kNumber>
void run_kernel(executorch::runtime::KernelRuntimeContext& context, Span<EValue*> values) {
  if (Values(values).send(kKernel, kNumber) < 0) {
    context.fail(Error::Internal);
  }
}

template <size_t... kNumbers>
constexpr auto kernels_of(std::index_sequence<kNumbers...>) {
  return std::array<executorch::runtime::OpFunction, sizeof...(kNumbers)>{&run_kernel<kNumbers>...};
}

constexpr auto kKernels = kernels_of(std::make_index_sequence<kMaxKernels>());

// The runtime keeps pointers to them, until the process ends.
std::deque<std::string> names;
std::deque<Backend> backends;
size_t kernel_count = 0;

const char* kept(const char* name) {
  return names.emplace_back(name).c_str();
}

// Registering a kernel twice ends the process.
bool is_registered(const char* name) {
  const auto kernels = executorch::runtime::get_registered_kernels();
  return std::any_of(kernels.begin(), kernels.end(), [name](const auto& kernel) { return strcmp(kernel.name_, name) == 0; });
}

// `number`, or what an error of the runtime becomes.
int64_t number_or(Error error, int64_t number) {
  return error == Error::Ok ? number : -1;
}

}  // namespace
}  // namespace runner

extern "C" {

// Sets the function that answers; before all others.
void executorch_emulated_answer(executorch_emulated_call call) {
  runner::call_python = call;
}

// Registers a backend; returns its number from 0 on, or -1: the runtime has one of that name, or no room.
int64_t executorch_emulated_backend(const char* name) {
  const auto number = static_cast<int64_t>(runner::backends.size());
  runner::Backend& backend = runner::backends.emplace_back(number);
  const auto error = executorch::runtime::register_backend({runner::kept(name), &backend});
  if (error != executorch::runtime::Error::Ok) {
    runner::backends.pop_back();
  }
  return runner::number_or(error, number);
}

// Registers a kernel, the same.
int64_t executorch_emulated_kernel(const char* name) {
  if (runner::kernel_count == runner::kMaxKernels || runner::is_registered(name)) {
    return -1;
  }
  const executorch::runtime::Kernel kernel(runner::kept(name), runner::kKernels[runner::kernel_count]);
  const auto error = executorch::runtime::register_kernel(kernel);
  const auto number = static_cast<int64_t>(runner::kernel_count);
  runner::kernel_count += error == executorch::runtime::Error::Ok ? 1 : 0;
  return runner::number_or(error, number);
}

// Copies at most `size` bytes of a program's named data to `to`, which may be NULL; returns its size, or -1: there is none.
int64_t executorch_emulated_named_data(const void* named_data, const char* key, void* to, uint64_t size) {
  const auto* map = static_cast<const executorch::runtime::NamedDataMap*>(named_data);
  if (map == nullptr) {
    return -1;
  }
  auto data = map->get_data(key);
  if (!data.ok()) {
    return -1;
  }
  if (to != nullptr) {
    memcpy(to, data->data(), size < data->size() ? size : data->size());
  }
  const auto length = static_cast<int64_t>(data->size());
  data->Free();
  return length;
}

// Gives a tensor of a call another shape of its rank, and `value` what changed; -1: the tensor has no room for it.
int64_t executorch_emulated_resize(executorch_emulated_value* value, const int32_t* shape, uint64_t rank) {
  const auto& tensor = *static_cast<const executorch::aten::Tensor*>(value->tensor);
  if (executorch::runtime::resize_tensor(tensor, {shape, rank}) != executorch::runtime::Error::Ok) {
    return -1;
  }
  *value = runner::of_tensor(tensor);
  return 0;
}
}
