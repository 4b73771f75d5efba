#include "tools/runner/engine/runtime_error.h"

#include "tools/runner/base/fail.h"

namespace runner {
namespace {

using executorch::runtime::Error;

const char* words(Error error) {
  switch (error) {
    case Error::InvalidState:
      return "the program or backend is in no state for it; a program whose weights are in .ptd "
             "files needs them: name them with --data, or give the --manifest";
    case Error::NotSupported:
      return "not supported by this runtime, as inputs of another shape than exported are, too";
    case Error::InvalidArgument:
      return "an argument is invalid: the inputs don't fit, or the program is damaged";
    case Error::InvalidType:
      return "a value has another type than wanted";
    case Error::OperatorMissing:
      return "it uses an operator that this runtime doesn't have";
    case Error::NotFound:
      return "not found: constant data is missing from the data files, or a backend from this "
             "runtime; name all .ptd files with --data, or give the --manifest";
    case Error::MemoryAllocationFailed:
    case Error::OutOfResources:
    case Error::DelegateMemoryAllocationFailed:
      return "memory ran out";
    case Error::AccessFailed:
      return "a file couldn't be read";
    case Error::InvalidProgram:
      return "the program is damaged, or of another version";
    case Error::InvalidExternalData:
      return "a data file is damaged, or doesn't fit the program";
    case Error::DelegateInvalidCompatibility:
      return "a backend doesn't accept its part of the program: damaged, or of another version";
    case Error::DelegateInvalidHandle:
      return "a backend lost its part of the program";
    default:
      return "an error inside of the runtime";
  }
}

}  // namespace

void check(Error error, const std::string& what) {
  if (error == Error::Ok) {
    return;
  }
  const auto number = static_cast<unsigned>(error);
  const std::string code = {'0', 'x', "0123456789abcdef"[number >> 4 & 15],
                            "0123456789abcdef"[number & 15]};
  const std::string message = runtime_message();
  fail(what + ": " + words(error) + " (ExecuTorch error " + code +
       (message.empty() ? "" : ": " + message) + ").");
}

}  // namespace runner
