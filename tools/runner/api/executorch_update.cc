#include "tools/runner/api/executorch_update.h"

#include <string>

#include "tools/runner/api/sentence.h"
#include "tools/runner/update/apply_update.h"
#include "tools/runner/update/signature.h"

namespace {

using runner::fail;

executorch_update_code code_of(runner::UpdateFailure failure) {
  switch (failure) {
    case runner::UpdateFailure::kInvalidUpdate:
      return EXECUTORCH_UPDATE_INVALID_UPDATE;
    case runner::UpdateFailure::kOtherVersion:
      return EXECUTORCH_UPDATE_OTHER_VERSION;
    case runner::UpdateFailure::kNotWritten:
      break;
  }
  return EXECUTORCH_UPDATE_NOT_WRITTEN;
}

}  // namespace

extern "C" {

executorch_update_code executorch_update_apply(
    const char* folder,
    const char* update_file,
    const executorch_update_options* options,
    executorch_update_result* result,
    executorch_app_error* error) {
  if (folder == nullptr || update_file == nullptr) {
    return fail(
        EXECUTORCH_UPDATE_INVALID_ARGUMENT,
        runner::missing_argument("executorch_update_apply", folder == nullptr ? "folder" : "update_file"),
        error);
  }
  const char* const key = options == nullptr ? nullptr : options->public_key;
  runner::UpdateFailure failure = runner::UpdateFailure::kNotWritten;
  const auto applied = runner::apply_update(folder, update_file, key, failure);
  if (!applied.ok()) {
    return fail(code_of(failure), applied.sentence(), error);
  }
  if (result != nullptr) {
    *result = {applied->is_current, applied->files, applied->written, ""};
    applied->label.copy(result->label, sizeof(result->label) - 1);
  }
  return fail(EXECUTORCH_UPDATE_OK, "", error);
}

executorch_update_code executorch_update_verify(
    const char* folder,
    const char* public_key,
    executorch_app_error* error) {
  if (folder == nullptr || public_key == nullptr) {
    return fail(
        EXECUTORCH_UPDATE_INVALID_ARGUMENT,
        runner::missing_argument("executorch_update_verify", folder == nullptr ? "folder" : "public_key"),
        error);
  }
  const runner::Status valid = runner::check_signed_folder(folder, public_key);
  return valid.ok() ? fail(EXECUTORCH_UPDATE_OK, "", error)
                    : fail(EXECUTORCH_UPDATE_INVALID_UPDATE, valid.sentence(), error);
}

}  // extern "C"
