/* Updates of an app's folder, and signatures, in C. Part of the library of executorch_app.h.
 *
 *     executorch_update_options options = {0};
 *     executorch_update_result result;
 *     executorch_app_error error;
 *     options.public_key = "RWT...";
 *     if (executorch_update_apply("chat_app", "chat_1_1.update", &options, &result, &error)) {
 *       fprintf(stderr, "%s\n", error.sentence);
 *     }
 *
 * An update is applied as a whole: if it fails, or the process is killed, the folder has the older or the newer version.
 * Apps that are open keep the older version's files; open them again.
 */
#ifndef EXECUTORCH_UPDATE_H_
#define EXECUTORCH_UPDATE_H_

#include "executorch_app.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  EXECUTORCH_UPDATE_OK = 0,
  /* An argument is NULL. */
  EXECUTORCH_UPDATE_INVALID_ARGUMENT = 1,
  /* The update is damaged, or not signed with the key: download it again. */
  EXECUTORCH_UPDATE_INVALID_UPDATE = 2,
  /* The folder has another version than the update is for, or is damaged: download the whole app. */
  EXECUTORCH_UPDATE_OTHER_VERSION = 3,
  /* The newer version cannot be written, because the disk is full: apply the update later. */
  EXECUTORCH_UPDATE_NOT_WRITTEN = 4,
} executorch_update_code;

/* Zero is each option's default. */
typedef struct {
  const char* public_key; /* Minisign's public key ("RW..."), or the text of its file; NULL: signatures are not checked. */
} executorch_update_options;

typedef struct {
  bool is_current;    /* The folder had the newer version already. */
  uint64_t files;     /* That were written; the others are unchanged. */
  uint64_t written;   /* Bytes. */
  char label[512];    /* Of the newer version; a longer one is cut. */
} executorch_update_result;

/* Replaces the version of an app in `folder` by a newer one. `update_file` comes from et_update. Needs space for all
 * files that change, and on Android, which forbids links to files, for the whole app. Files in the folder that are not
 * the app's stay.
 *
 * `folder` may be a folder, or, for Android before version 11, a link to <name>.1 or <name>.2 beside it. A folder
 * <name>.next beside it is the update's own.
 *
 * `options` and `result` may be NULL. One call at a time works on the folders of one parent folder; others wait. */
executorch_update_code executorch_update_apply(
    const char* folder,
    const char* update_file,
    const executorch_update_options* options,
    executorch_update_result* result,
    executorch_app_error* error);

/* Checks the signature of an app's manifest, manifest.json.minisig, and with that the sizes and SHA-256 of all files. */
executorch_update_code executorch_update_verify(
    const char* folder,
    const char* public_key,
    executorch_app_error* error);

#ifdef __cplusplus
}
#endif

#endif /* EXECUTORCH_UPDATE_H_ */
