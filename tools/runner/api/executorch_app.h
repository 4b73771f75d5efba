/* ExecuTorch programs of these rules for apps, in C: open an app or a program's files, run methods with tensors, and
 * chat with language models.
 *
 *     executorch_app* app = NULL;
 *     executorch_app_session* session = NULL;
 *     executorch_app_chat* chat = NULL;
 *     executorch_app_error error;
 *     if (executorch_app_open("chat_app", NULL, &app, &error) ||
 *         executorch_app_open_session(app, NULL, &session, &error) ||
 *         executorch_app_open_chat(session, NULL, &chat, &error) ||
 *         executorch_app_say(chat, "Hello!", print, NULL, NULL, &error)) {
 *       fprintf(stderr, "%s\n", error.sentence);
 *     }
 *     executorch_app_close_chat(chat);
 *     executorch_app_close_session(session);
 *     executorch_app_close(app);
 *
 * Functions that can fail return a code, and write a sentence to `error` unless it is NULL. Close functions accept
 * NULL. Texts are UTF-8 and end with a zero byte.
 *
 * Threads: one app may serve several sessions in several threads. One session, and its chat, belong to one thread at a
 * time; only executorch_app_stop may be called from any thread. Close chats before their session, and sessions before
 * their app.
 */
#ifndef EXECUTORCH_APP_H_
#define EXECUTORCH_APP_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  EXECUTORCH_APP_OK = 0,
  /* An argument is wrong: no such program or method, or an input that does not fit the method. */
  EXECUTORCH_APP_INVALID_ARGUMENT = 1,
  /* A file is missing, damaged, or not the one that the program was built with. */
  EXECUTORCH_APP_INVALID_FILES = 2,
  /* The runtime cannot load the program or the method. */
  EXECUTORCH_APP_NOT_LOADED = 3,
  /* The program failed while it ran. */
  EXECUTORCH_APP_FAILED = 4,
  /* The message does not fit into what is left of the context; rewind, or shorten it. */
  EXECUTORCH_APP_CONTEXT_FULL = 5,
} executorch_app_code;

/* What is wrong, as one sentence; a longer one is cut. Empty after success. */
typedef struct {
  char sentence[2048];
} executorch_app_error;

typedef struct executorch_app executorch_app;
typedef struct executorch_app_session executorch_app_session;
typedef struct executorch_app_chat executorch_app_chat;

/* Zero is each option's default. */
typedef struct {
  const char* manifest;       /* Of a .pte file; NULL: FILE.manifest.json beside it, if it exists. */
  const char* const* data;    /* A .pte file's data files, if its manifest has other ones or none. */
  size_t data_count;
  bool verify;                /* Also checks the files' SHA-256. */
  bool weight_cache;          /* XNNPACK packs common weights once for all sessions; an error if that is unsafe. */
  bool no_weight_cache;       /* Never; the default is to do so if the manifests prove that it is safe. */
} executorch_app_open_options;

/* Opens an app: its folder, its manifest.json, or a single .pte file. Maps the files and checks them as the runner
 * does. `options` may be NULL. */
executorch_app_code executorch_app_open(
    const char* path,
    const executorch_app_open_options* options,
    executorch_app** app,
    executorch_app_error* error);

void executorch_app_close(executorch_app* app);

size_t executorch_app_program_count(const executorch_app* app);

/* The name in the app; for a .pte file its path. NULL: there is no such index. */
const char* executorch_app_program_name(const executorch_app* app, size_t index);

/* Loads a program with memory of its own; sessions share the mapped files. `program` may be NULL if the app has only
 * one. A method is loaded when it first runs. */
executorch_app_code executorch_app_open_session(
    executorch_app* app,
    const char* program,
    executorch_app_session** session,
    executorch_app_error* error);

void executorch_app_close_session(executorch_app_session* session);

size_t executorch_app_method_count(const executorch_app_session* session);

/* In alphabetical order. NULL: there is no such index. */
const char* executorch_app_method_name(const executorch_app_session* session, size_t index);

/* An array in row-major order. */
typedef struct {
  const char* dtype;     /* NumPy's name, e.g. "float32"; also "bfloat16". */
  const int64_t* shape;
  size_t rank;           /* Number of dimensions; 0: one number. */
  const void* data;
  size_t size;           /* In bytes. */
} executorch_app_tensor;

/* Runs a method. `method` may be NULL for "forward" or the only method. `outputs` stay valid until the session runs
 * again, or is closed; it and `output_count` may be NULL. */
executorch_app_code executorch_app_run(
    executorch_app_session* session,
    const char* method,
    const executorch_app_tensor* inputs,
    size_t input_count,
    const executorch_app_tensor** outputs,
    size_t* output_count,
    executorch_app_error* error);

/* Zero is each option's default. */
typedef struct {
  const char* tokenizer;    /* A tokenizer.json, with chat_format.json beside it; NULL: the app's. */
  const char* system;       /* The system message; NULL: the chat template's. */
  bool raw;                 /* Messages are the model's whole input, without a chat format. */
  double temperature;       /* 0: the most likely token. */
  uint32_t seed;            /* Up to 2147483647; 0: a random one. */
  uint32_t max_new_tokens;  /* Of an answer; 0: 256. */
} executorch_app_chat_options;

/* Opens a chat in a session's KV cache; a session has one chat at a time. `options` may be NULL. */
executorch_app_code executorch_app_open_chat(
    executorch_app_session* session,
    const executorch_app_chat_options* options,
    executorch_app_chat** chat,
    executorch_app_error* error);

void executorch_app_close_chat(executorch_app_chat* chat);

/* Receives parts of an answer, in whole characters. Returns false to stop the answer. */
typedef bool (*executorch_app_listener)(const char* text, void* user);

typedef struct {
  const char* reason;  /* "end", "length", "context" or "stopped"; a constant. */
  size_t prompt_tokens;
  size_t tokens;       /* Of the answer. */
  double prefill_ms;
  size_t decode_tokens;  /* Calls with one token. */
  double decode_ms;
} executorch_app_answer;

/* Answers a message; the answer is a turn of the chat. `listener` and `answer` may be NULL. After an error the chat is
 * as it was before the message. */
executorch_app_code executorch_app_say(
    executorch_app_chat* chat,
    const char* message,
    executorch_app_listener listener,
    void* user,
    executorch_app_answer* answer,
    executorch_app_error* error);

/* Ends the current answer after its next token. */
void executorch_app_stop(executorch_app_chat* chat);

/* The number of turns. */
size_t executorch_app_turns(const executorch_app_chat* chat);

/* Keeps that many turns, and forgets later ones; 0 begins a new conversation. Needs no computation. */
executorch_app_code executorch_app_rewind(
    executorch_app_chat* chat,
    size_t turns,
    executorch_app_error* error);

/* Continues the conversation with another adapter; the next message reads its tokens once more. `program` is another
 * program of the app that has the same tokenizer, or NULL: the same one. `data` are data files in place of the
 * program's: an adapter's .ptd, with its .index.json beside it. An error leaves the chat as it is. The session runs
 * methods of that program, too. */
executorch_app_code executorch_app_switch_adapter(
    executorch_app_chat* chat,
    const char* program,
    const char* const* data,
    size_t data_count,
    executorch_app_error* error);

/* Writes the conversation and its KV cache to a file: some megabytes, the memory that the program plans. */
executorch_app_code executorch_app_save_chat(
    const executorch_app_chat* chat,
    const char* path,
    executorch_app_error* error);

/* Continues a saved conversation in place of the chat's, which stays as it is after an error. The program and its data
 * must have the bytes of those that saved it. */
executorch_app_code executorch_app_restore_chat(
    executorch_app_chat* chat,
    const char* path,
    executorch_app_error* error);

/* The tokens that a message would add now, with those of the chat format. */
executorch_app_code executorch_app_count_tokens(
    const executorch_app_chat* chat,
    const char* message,
    size_t* count,
    executorch_app_error* error);

/* How many more tokens fit into the chat. */
size_t executorch_app_room(const executorch_app_chat* chat);

#ifdef __cplusplus
}
#endif

#endif /* EXECUTORCH_APP_H_ */
