/* ExecuTorch programs of these rules for apps, in C: open an app or a program's files, run methods with tensors, and
 * chat with language models. The runner's command line is a program on this interface.
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
 * Functions that can fail return a code, and write a sentence to `error` unless it is NULL. The others return NULL, 0 or
 * false for a handle that is NULL or closed. Texts are UTF-8 and end with a zero byte.
 *
 * Handles: closing a session closes its chat, and closing an app its sessions; a tokenizer needs no app. Functions refuse
 * a closed handle, and one of another type. Closing NULL or a closed handle has no effect.
 *
 * Threads: one app may serve several sessions in several threads. One session, and its chat, belong to one thread at a
 * time, and so does a tokenizer: a call in another thread is refused, or returns NULL, 0 or false. Only
 * executorch_app_stop and the close functions may be called from any thread at any time; what another thread uses is
 * freed when its call returns, and an answer ends after its next token.
 *
 * Listeners may call executorch_app_stop, and functions that return no code, for their own chat and session. All others
 * are refused until the answer has ended.
 *
 * Exceptions: none leaves a function. What a listener throws, or memory that runs out, is EXECUTORCH_APP_FAILED. If
 * memory ran out in the middle of an answer or a switch, the session takes no more calls: close it. Code that was built
 * without exceptions, as with the bundled compiler for Android, ends the process instead.
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
  /* An argument is wrong: no such program or method, an input that does not fit the method, a closed handle, or a call
   * of a listener. */
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

/* What is wrong, as one sentence; the middle of a longer one is left out. Empty after success. */
typedef struct {
  char sentence[2048];
} executorch_app_error;

typedef struct executorch_app executorch_app;
typedef struct executorch_app_session executorch_app_session;
typedef struct executorch_app_chat executorch_app_chat;
typedef struct executorch_app_tokenizer executorch_app_tokenizer;

/* A program to open, and its files. Zero is each option's default. */
typedef struct {
  const char* program;        /* Its name in the app, or a .pte file. */
  const char* manifest;       /* NULL: the app's; of a .pte file, FILE.manifest.json beside it, if it exists. */
  const char* const* data;    /* Data files, if the manifest has other ones or none. */
  size_t data_count;
  bool bundled;               /* The file is a .bpte file, which contains the program. */
} executorch_app_program_files;

/* Zero is each option's default. */
typedef struct {
  const char* manifest;       /* Of a .pte file; NULL: FILE.manifest.json beside it, if it exists. */
  const char* const* data;    /* Data files of a .pte file, or of an app's only program, as above. */
  size_t data_count;
  bool verify;                /* Also checks the files' SHA-256. */
  bool weight_cache;          /* XNNPACK packs common weights once for all sessions; an error if that is unsafe. */
  bool no_weight_cache;       /* Never; the default is to do so if the manifests prove that it is safe. */
  const executorch_app_program_files* programs; /* These programs instead of all of the app; or beside the .pte file. */
  size_t program_count;
  const char* const* variants; /* Programs to take where they are among variants, whatever the device is. */
  size_t variant_count;
  const char* const* device;   /* Facts in place of the device's own: "soc=SM8650", "features=dotprod i8mm". */
  size_t device_count;
  const char* state;           /* A folder that remembers variants whose loading ended the process; NULL: none does. */
} executorch_app_open_options;

/* The runtime's version, backends and operators as a JSON object: {"version": "1.5.1", "backends": [...], "operators":
 * [...]}. Valid until the next call in any thread. */
const char* executorch_app_runtime_info(void);

/* Opens an app: its folder, its manifest.json, or a .pte file. Maps the files and checks them before anything is
 * loaded. Of an app's variants it chooses the first program whose conditions the device meets and which loads, with all
 * its methods; that program has the variants' name from here on. The last one that the device meets is not tried.
 * `path` may be NULL: .pte files that `options` name, or the app whose folder contains this process's program.
 * `options` may be NULL. */
executorch_app_code executorch_app_open(
    const char* path,
    const executorch_app_open_options* options,
    executorch_app** app,
    executorch_app_error* error);

/* Closes the app, its sessions and their chats. INVALID_ARGUMENT, and nothing is closed: a listener of an answer calls. */
executorch_app_code executorch_app_close(executorch_app* app);

/* The label of the app's target; NULL: it is no app. */
const char* executorch_app_label(const executorch_app* app);

/* Whether XNNPACK packs common weights once for all sessions. */
bool executorch_app_has_weight_cache(const executorch_app* app);

/* What variants of an app came to, as a JSON object: {"program": "chat_xnnpack", "skipped": [{"program": "chat_qnn",
 * "reason": "it needs soc = SM8650, and the device has soc SM8450"}], "device": {"soc": ["SM8450"]}}. "device" has the
 * facts that somebody asked for. `name` is the variants', and may be NULL if there are no others. NULL: none of that name
 * were chosen from. Valid until the app is closed. */
const char* executorch_app_variant(const executorch_app* app, const char* name);

/* In the order of the options, or of names; a program among variants has their name. */
size_t executorch_app_program_count(const executorch_app* app);

/* The name in the app; for a .pte file its path. NULL: there is no such index. */
const char* executorch_app_program_name(const executorch_app* app, size_t index);

/* The program's .pte or .bpte file. NULL: there is no such index. */
const char* executorch_app_program_path(const executorch_app* app, size_t index);

/* A data file that the program loads. NULL: there is no such index. */
const char* executorch_app_data_path(const executorch_app* app, size_t program_index, size_t index);

/* Loads a program with memory of its own; sessions share the mapped files. `program` may be NULL if the app has only
 * one. A method is loaded when it first runs, unless executorch_app_load_method loads it. */
executorch_app_code executorch_app_open_session(
    executorch_app* app,
    const char* program,
    executorch_app_session** session,
    executorch_app_error* error);

/* Zero is each option's default. */
typedef struct {
  bool records_events;  /* For executorch_app_write_events; the binary must link the runtime's library for it. */
} executorch_app_session_options;

/* The same for a program by its index, with options, which may be NULL. */
executorch_app_code executorch_app_open_session_at(
    executorch_app* app,
    size_t index,
    const executorch_app_session_options* options,
    executorch_app_session** session,
    executorch_app_error* error);

/* Closes the session and its chat; the result as for executorch_app_close. */
executorch_app_code executorch_app_close_session(executorch_app_session* session);

/* Loads the program anew: what its methods keep between runs has its initial values again. An error, if the session has
 * a chat. Descriptions and outputs become invalid. */
executorch_app_code executorch_app_reset_session(executorch_app_session* session, executorch_app_error* error);

/* Sets the number of threads that kernels and backends use in this process, from 1 to 1024. The default is the
 * runtime's choice for the machine. An error while any session of the process is open: loaded methods keep the
 * threads. */
executorch_app_code executorch_app_set_threads(size_t count, executorch_app_error* error);

size_t executorch_app_method_count(const executorch_app_session* session);

/* In alphabetical order. NULL: there is no such index. */
const char* executorch_app_method_name(const executorch_app_session* session, size_t index);

/* An input or output: a tensor, or another kind of value. */
typedef struct {
  const char* kind;      /* "tensor", "int", "float", "bool", "string", "none", "list" or "unknown"; a constant. */
  const char* dtype;     /* NumPy's name; NULL: not a tensor. */
  const int64_t* shape;
  size_t rank;           /* Number of dimensions. */
} executorch_app_value;

typedef struct {
  const char* name;
  const executorch_app_value* inputs;
  size_t input_count;
  const executorch_app_value* outputs;
  size_t output_count;
} executorch_app_method;

/* Describes a method, with the largest shapes that it takes and returns. `method` may be NULL for "forward" or the only
 * method. The description is valid until the session is reset, switches to another program, or is closed. */
executorch_app_code executorch_app_describe_method(
    executorch_app_session* session,
    const char* method,
    executorch_app_method* description,
    executorch_app_error* error);

/* Loads a method before it first runs. `method` as above. */
executorch_app_code executorch_app_load_method(
    executorch_app_session* session,
    const char* method,
    executorch_app_error* error);

/* An array in row-major order. Of an input or output of another kind: an int is int64, a float float64 and a bool bool
 * without dimensions; a string is its bytes, uint8, and none an array without elements. No input is a string. */
typedef struct {
  const char* dtype;     /* NumPy's name, e.g. "float32"; also "bfloat16". */
  const int64_t* shape;
  size_t rank;           /* Number of dimensions; 0: one number. */
  const void* data;
  size_t size;           /* In bytes. */
  const char* name;      /* What errors call an input; NULL: input_0, input_1, ... */
} executorch_app_tensor;

/* Runs a method. `method` may be NULL for "forward" or the only method. An error, if an input has another size than the
 * manifest says that the model was exported for: below a minimum, no multiple, or not that of an input which it goes
 * with. `outputs` stay valid until the session runs again, or is closed; it and `output_count` may be NULL, and then
 * nothing is copied. */
executorch_app_code executorch_app_run(
    executorch_app_session* session,
    const char* method,
    const executorch_app_tensor* inputs,
    size_t input_count,
    const executorch_app_tensor** outputs,
    size_t* output_count,
    executorch_app_error* error);

/* How long the session's last run took, in milliseconds, without copies of inputs and outputs; 0: there was none.
 * `description` receives the method with the shapes of that run, valid until the next one; it may be NULL. */
double executorch_app_last_run(const executorch_app_session* session, executorch_app_method* description);

/* Writes the events of a session that records them to a file, for ExecuTorch's Inspector (ETDump). */
executorch_app_code executorch_app_write_events(
    executorch_app_session* session,
    const char* path,
    executorch_app_error* error);

/* Opens a tokenizer.json for executorch_app_text_inputs; `path` may be NULL for the app's. `parse_special`: special
 * tokens in texts, e.g. "[MASK]", are tokens, not text. */
executorch_app_code executorch_app_open_tokenizer(
    const executorch_app* app,
    const char* path,
    bool parse_special,
    executorch_app_tokenizer** tokenizer,
    executorch_app_error* error);

/* The result as for executorch_app_close. */
executorch_app_code executorch_app_close_tokenizer(executorch_app_tokenizer* tokenizer);

/* Makes the inputs of a method that reads tokens, such as an encoder's, from a text or from a pair of texts: tokens, a
 * mask and segments, or the first of these. `inputs` stay valid until the tokenizer makes others, or is closed. */
executorch_app_code executorch_app_text_inputs(
    executorch_app_tokenizer* tokenizer,
    executorch_app_session* session,
    const char* method,
    const char* const* texts,
    size_t text_count,
    const executorch_app_tensor** inputs,
    size_t* input_count,
    executorch_app_error* error);

/* Whether the session's program may be a language model, which chats. */
bool executorch_app_is_language_model(const executorch_app_session* session);

/* Zero is each option's default. */
typedef struct {
  const char* tokenizer;    /* A tokenizer.json, with chat_format.json beside it; NULL: the app's. */
  const char* system;       /* The system message; NULL: the chat template's. */
  bool raw;                 /* Messages are the model's whole input, without a chat format. */
  double temperature;       /* 0: the most likely token. */
  uint32_t seed;            /* Up to 2147483647; 0: a random one. */
  uint32_t max_new_tokens;  /* Of an answer; 0: 256. */
  bool parse_special;       /* Special tokens in messages, e.g. "<|im_end|>", are tokens, not text. */
  bool multi_turn;          /* An error, if the chat template has no second message. */
} executorch_app_chat_options;

/* Opens a chat in a session's KV cache; a session has one chat at a time. `options` may be NULL. */
executorch_app_code executorch_app_open_chat(
    executorch_app_session* session,
    const executorch_app_chat_options* options,
    executorch_app_chat** chat,
    executorch_app_error* error);

/* The result as for executorch_app_close. */
executorch_app_code executorch_app_close_chat(executorch_app_chat* chat);

/* Receives parts of an answer, in whole characters: `size` bytes, of which some may be zero. Returns false to stop the
 * answer. What it may call is said above. */
typedef bool (*executorch_app_listener)(const char* text, size_t size, void* user);

typedef struct {
  const char* reason;  /* "end", "length", "context" or "stopped"; a constant. */
  size_t prompt_tokens;
  size_t tokens;       /* Of the answer. */
  double prefill_ms;
  size_t decode_tokens;  /* Calls with one token. */
  double decode_ms;
  const uint32_t* prompt_token_ids;  /* `prompt_tokens` numbers, valid until the chat answers again, or is closed. */
  const uint32_t* token_ids;         /* `tokens` numbers, without the one that ended the answer; the same. */
} executorch_app_answer;

/* Gives an image or a recording to the next message: the input of the program's vision_encoder or audio_encoder, which
 * runs in this call. The message has a place for it, in the order of these calls: the token that the metadata
 * get_media_token_id name, such as "<image>", once or as often as it has positions; the model's card says what else
 * stands around it. Rewinding forgets what no message has said yet. Saving refuses conversations with images or recordings. */
executorch_app_code executorch_app_attach(
    executorch_app_chat* chat,
    const executorch_app_tensor* media,
    executorch_app_error* error);

/* Answers a message; the answer is a turn of the chat. `listener` and `answer` may be NULL. After an error the chat is
 * as it was before the message. */
executorch_app_code executorch_app_say(
    executorch_app_chat* chat,
    const char* message,
    executorch_app_listener listener,
    void* user,
    executorch_app_answer* answer,
    executorch_app_error* error);

/* Reads tokens into the empty KV cache of a session without a chat, and adds the most likely ones, `max_new_tokens` of
 * them (0: 256) if the context has room; a token that ends an answer is one like others. For measurements: no tokenizer
 * takes part. `answer` may be NULL; its numbers are valid until the session generates again, or is closed. */
executorch_app_code executorch_app_generate(
    executorch_app_session* session,
    const uint32_t* tokens,
    size_t token_count,
    uint32_t max_new_tokens,
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
 * program's: an adapter's .ptd, with its .manifest.json beside it. An error leaves the chat as it is. The session runs
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

/* The tokens of the conversation. */
size_t executorch_app_position(const executorch_app_chat* chat);

/* How many tokens a conversation may have. */
size_t executorch_app_context(const executorch_app_chat* chat);

/* How many more tokens fit into the chat. */
size_t executorch_app_room(const executorch_app_chat* chat);

#ifdef __cplusplus
}
#endif

#endif /* EXECUTORCH_APP_H_ */
