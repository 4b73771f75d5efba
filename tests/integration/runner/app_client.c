// Uses executorch_app.h as an app does: `app_client PROGRAM TOKENIZER TURNS` talks with a model that counts tokens, in
// two threads with a session each, and ends with code 1 at the first wrong answer. Saves chats in the working folder.
//
// `app_client APP PROGRAM PROGRAM TURNS` talks with two programs of an app, each in a thread, which must answer as they
// did before, and switches between them.
#define _GNU_SOURCE  // For sysconf with -std=c11.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "executorch_app.h"

enum { kThreads = 2, kOften = 20 };

static void check(bool is_right, const char* what, const executorch_app_error* error) {
  if (!is_right) {
    fprintf(stderr, "%s: %s\n", what, error->sentence);
    exit(1);
  }
}

static long resident_pages(void) {
  long size = 0, resident = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%ld %ld", &size, &resident) != 2) {
    exit(1);
  }
  fclose(file);
  return resident;
}

enum { kAnswer = 256 };

static bool append(const char* text, size_t size, void* answer) {
  const size_t room = kAnswer - 1 - strlen(answer);
  strncat(answer, text, size < room ? size : room);
  return true;
}

static bool stop_at_once(const char* text, size_t size, void* user) {
  (void)text, (void)size, (void)user;
  return false;
}

static executorch_app_chat_options options;

// The text of an answer must be the expected one.
static void expect(executorch_app_chat* chat, const char* message, const char* expected) {
  executorch_app_error error = {""};
  char text[kAnswer] = "";
  executorch_app_answer answer;
  check(executorch_app_say(chat, message, append, text, &answer, &error) == EXECUTORCH_APP_OK, "say", &error);
  strncpy(error.sentence, text, sizeof(error.sentence) - 1);
  check(strcmp(text, expected) == 0, "a wrong answer", &error);
  // The tokenizer's tokens are characters, after '!'.
  check(answer.tokens == strlen(text), "the number of tokens", &error);
  for (size_t i = 0; i < answer.tokens; ++i) {
    check(answer.token_ids[i] + '!' == (uint32_t)text[i], "a token", &error);
  }
  check(answer.prompt_tokens == strlen(message) && answer.prompt_token_ids[0] == 'a' - '!', "a token", &error);
}

static void check_chat(executorch_app_chat* chat) {
  executorch_app_error error = {""};
  size_t count = 0;
  check(executorch_app_count_tokens(chat, "aaaaaa", &count, &error) == EXECUTORCH_APP_OK && count == 6, "count", &error);
  expect(chat, "aaaaaa", "'()*");
  expect(chat, "a", ",-./");
  // Turn 1 again, after turn 0.
  check(executorch_app_rewind(chat, 1, &error) == EXECUTORCH_APP_OK && executorch_app_turns(chat) == 1, "rewind", &error);
  expect(chat, "a", ",-./");
  check(executorch_app_room(chat) == 1, "room", &error);
  check(executorch_app_position(chat) + 1 == executorch_app_context(chat), "position", &error);
  check(executorch_app_say(chat, "aaa", NULL, NULL, NULL, &error) == EXECUTORCH_APP_CONTEXT_FULL, "full", &error);
  printf("%s\n", error.sentence);
  check(executorch_app_turns(chat) == 2, "turns after an error", &error);
  check(executorch_app_rewind(chat, 3, &error) == EXECUTORCH_APP_INVALID_ARGUMENT, "rewind too far", &error);
  printf("%s\n", error.sentence);
  check(executorch_app_rewind(chat, 0, &error) == EXECUTORCH_APP_OK, "rewind", &error);
  executorch_app_answer answer;
  check(executorch_app_say(chat, "aaaaaa", stop_at_once, NULL, &answer, &error) == EXECUTORCH_APP_OK, "stop", &error);
  check(strcmp(answer.reason, "stopped") == 0 && answer.tokens == 1, "stopped", &error);
}

static void check_shape(const executorch_app_value* value, const char* dtype, int64_t rows, int64_t columns) {
  const executorch_app_error error = {""};
  check(strcmp(value->kind, "tensor") == 0 && strcmp(value->dtype, dtype) == 0, "a value", &error);
  check(value->rank == 2 && value->shape[0] == rows && value->shape[1] == columns, "a shape", &error);
}

static void check_run(executorch_app_session* session) {
  executorch_app_error error = {""};
  executorch_app_method method;
  check(executorch_app_last_run(session, &method) == 0 && method.input_count == 0, "no run", &error);
  check(executorch_app_describe_method(session, NULL, &method, &error) == EXECUTORCH_APP_OK, "describe", &error);
  check(strcmp(method.name, "forward") == 0 && method.input_count == 2 && method.output_count == 1, "method", &error);
  check_shape(&method.inputs[0], "int64", 1, 4);
  check_shape(&method.outputs[0], "float32", 1, 256);
  check(executorch_app_load_method(session, method.name, &error) == EXECUTORCH_APP_OK, "load", &error);
  const int64_t tokens[] = {5, 5, 5}, position[] = {4}, shape[] = {1, 3}, one[] = {1};
  const executorch_app_tensor* outputs = NULL;
  size_t count = 0;
  executorch_app_tensor inputs[] = {
      {"int64", shape, 2, tokens, sizeof(tokens), NULL},
      {"int64", one, 1, position, sizeof(position), "the position"},
  };
  check(executorch_app_run(session, "forward", inputs, 2, &outputs, &count, &error) == EXECUTORCH_APP_OK, "run", &error);
  check(count == 1 && strcmp(outputs[0].dtype, "float32") == 0 && outputs[0].rank == 2, "outputs", &error);
  // Seven tokens were seen.
  check(((const float*)outputs[0].data)[7] == 1.0f, "the output's number", &error);
  check(executorch_app_last_run(session, &method) > 0 && strcmp(method.name, "forward") == 0, "last run", &error);
  check_shape(&method.inputs[0], "int64", 1, 3);
  check(executorch_app_reset_session(session, &error) == EXECUTORCH_APP_OK, "reset", &error);
  check(
      executorch_app_run(session, NULL, inputs, 2, NULL, &count, &error) == EXECUTORCH_APP_OK && count == 0,
      "run without outputs", &error);
  inputs[1].dtype = "int32";
  inputs[1].size = 4;
  check(
      executorch_app_run(session, NULL, inputs, 2, NULL, NULL, &error) == EXECUTORCH_APP_INVALID_ARGUMENT, "dtype",
      &error);
  printf("%s\n", error.sentence);
  inputs[0].size = 8;
  check(
      executorch_app_run(session, NULL, inputs, 2, NULL, NULL, &error) == EXECUTORCH_APP_INVALID_ARGUMENT, "size",
      &error);
  printf("%s\n", error.sentence);
  check(
      executorch_app_run(session, "walk", inputs, 2, NULL, NULL, &error) == EXECUTORCH_APP_INVALID_ARGUMENT, "method",
      &error);
  printf("%s\n", error.sentence);
}

typedef struct {
  executorch_app* app;
  long turns;
  int number;
} Work;

// Goes on with what was saved, and then with the program loaded once more.
static void save_and_switch(executorch_app_chat* chat, int number) {
  executorch_app_error error = {""};
  char path[32];
  snprintf(path, sizeof(path), "%d.chat", number);
  check(executorch_app_save_chat(chat, path, &error) == EXECUTORCH_APP_OK, "save", &error);
  check(executorch_app_restore_chat(chat, path, &error) == EXECUTORCH_APP_OK, "restore", &error);
  check(
      executorch_app_switch_adapter(chat, NULL, NULL, 0, &error) == EXECUTORCH_APP_OK, "switch", &error);
}

static void* converse(void* argument) {
  const Work* work = argument;
  executorch_app_error error = {""};
  executorch_app_session* session = NULL;
  executorch_app_chat* chat = NULL;
  check(executorch_app_open_session(work->app, NULL, &session, &error) == EXECUTORCH_APP_OK, "session", &error);
  check(executorch_app_open_chat(session, &options, &chat, &error) == EXECUTORCH_APP_OK, "chat", &error);
  for (long turn = 0; turn < work->turns; ++turn) {
    if (turn % 2 == 0) {
      executorch_app_rewind(chat, 0, &error);
    }
    expect(chat, turn % 2 == 0 ? "aaaaaa" : "a", turn % 2 == 0 ? "'()*" : ",-./");
    if (turn % kOften == 0) {
      save_and_switch(chat, work->number);
    }
  }
  executorch_app_close_chat(chat);
  executorch_app_close_session(session);
  return NULL;
}

static void converse_in_threads(executorch_app* app, long turns) {
  pthread_t threads[kThreads];
  Work works[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    works[i] = (Work){app, turns, i};
    pthread_create(&threads[i], NULL, converse, &works[i]);
  }
  for (int i = 0; i < kThreads; ++i) {
    pthread_join(threads[i], NULL);
  }
}

typedef struct {
  executorch_app* app;
  const char* programs[2];
  char expected[2][kAnswer];
  long turns;
  int own;
} Conversation;

static void* repeat_or_switch(void* argument) {
  Conversation* work = argument;
  executorch_app_error error = {""};
  executorch_app_session* session = NULL;
  executorch_app_chat* chat = NULL;
  const executorch_app_chat_options few = {.max_new_tokens = 8};
  check(
      executorch_app_open_session(work->app, work->programs[work->own], &session, &error) == EXECUTORCH_APP_OK, "session",
      &error);
  check(executorch_app_open_chat(session, &few, &chat, &error) == EXECUTORCH_APP_OK, "chat", &error);
  for (long turn = 0; turn < work->turns; ++turn) {
    char text[kAnswer] = "";
    check(executorch_app_rewind(chat, 0, &error) == EXECUTORCH_APP_OK, "rewind", &error);
    check(
        executorch_app_say(chat, "What is the capital of France?", append, text, NULL, &error) == EXECUTORCH_APP_OK,
        "say", &error);
    char* expected = work->expected[work->own];
    if (expected[0] == '\0') {
      strcpy(expected, text);
    }
    strncpy(error.sentence, text, sizeof(error.sentence) - 1);
    check(strcmp(text, expected) == 0, "another answer", &error);
    work->own = !work->own;
    check(
        executorch_app_switch_adapter(chat, work->programs[work->own], NULL, 0, &error) == EXECUTORCH_APP_OK, "switch",
        &error);
  }
  executorch_app_close_chat(chat);
  executorch_app_close_session(session);
  return NULL;
}

static int converse_with_two(char** values) {
  executorch_app_error error = {""};
  executorch_app* app = NULL;
  check(executorch_app_open(values[1], NULL, &app, &error) == EXECUTORCH_APP_OK, "open", &error);
  Conversation works[] = {{app, {values[2], values[3]}, {"", ""}, 2, 0}, {0}};
  repeat_or_switch(&works[0]);
  printf("%s\n%s\n", works[0].expected[0], works[0].expected[1]);
  works[0].turns = strtol(values[4], NULL, 10);
  works[1] = works[0];
  works[1].own = 1;
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) {
    pthread_create(&threads[i], NULL, repeat_or_switch, &works[i]);
  }
  for (int i = 0; i < 2; ++i) {
    pthread_join(threads[i], NULL);
  }
  executorch_app_close(app);
  return 0;
}

// The same file twice, as two programs, and what is refused.
static void check_files(const char* path) {
  executorch_app_error error = {""};
  const executorch_app_program_files files[] = {{.program = path}, {.program = path}};
  const executorch_app_open_options two = {.programs = files, .program_count = 2};
  const executorch_app_session_options recording = {.records_events = true};
  executorch_app* app = NULL;
  executorch_app_session* session = NULL;
  check(executorch_app_open(NULL, &two, &app, &error) == EXECUTORCH_APP_OK, "open two", &error);
  check(executorch_app_program_count(app) == 2 && executorch_app_label(app) == NULL, "two programs", &error);
  check(strcmp(executorch_app_program_path(app, 1), path) == 0, "path", &error);
  check(executorch_app_program_path(app, 2) == NULL && executorch_app_data_path(app, 1, 0) == NULL, "end", &error);
  check(executorch_app_open_session_at(app, 1, NULL, &session, &error) == EXECUTORCH_APP_OK, "session", &error);
  check(executorch_app_is_language_model(session), "language model", &error);
  check(
      executorch_app_write_events(session, "x.etdp", &error) == EXECUTORCH_APP_INVALID_ARGUMENT, "no events", &error);
  printf("%s\n", error.sentence);
  executorch_app_close_session(session);
  check(
      executorch_app_open_session_at(app, 2, NULL, &session, &error) == EXECUTORCH_APP_INVALID_ARGUMENT, "index",
      &error);
  printf("%s\n", error.sentence);
  // This binary does not link the library of events.
  check(
      executorch_app_open_session_at(app, 0, &recording, &session, &error) == EXECUTORCH_APP_NOT_LOADED, "events",
      &error);
  printf("%s\n", error.sentence);
  check(executorch_app_set_threads(0, &error) == EXECUTORCH_APP_INVALID_ARGUMENT, "no threads", &error);
  printf("%s\n", error.sentence);
  // Another session is open.
  check(executorch_app_set_threads(2, &error) == EXECUTORCH_APP_INVALID_ARGUMENT, "threads in use", &error);
  printf("%s\n", error.sentence);
  executorch_app_close(app);
}

// A sentence that is longer than its array: what is wrong, and what to do.
static void check_long_sentence(void) {
  executorch_app_error error = {""};
  enum { kLong = 3000 };
  char path[kLong + sizeof(".pte")];
  for (size_t i = 0; i < kLong; i += 2) {
    memcpy(path + i, "\xC3\xA4", 2);
  }
  memcpy(path + kLong, ".pte", sizeof(".pte"));
  executorch_app* app = NULL;
  check(executorch_app_open(path, NULL, &app, &error) == EXECUTORCH_APP_INVALID_FILES, "a long path", &error);
  printf("%s\n", error.sentence);
}

int main(int count, char** values) {
  if (count == 5) {
    return converse_with_two(values);
  }
  if (count != 4) {
    return 2;
  }
  executorch_app_error error = {""};
  executorch_app* app = NULL;
  executorch_app_session* session = NULL;
  executorch_app_chat* chat = NULL;
  options = (executorch_app_chat_options){.tokenizer = values[2], .raw = true, .max_new_tokens = 4};
  check(executorch_app_open("missing.pte", NULL, &app, &error) == EXECUTORCH_APP_INVALID_FILES, "missing", &error);
  printf("%s\n", error.sentence);
  check(executorch_app_set_threads(2, &error) == EXECUTORCH_APP_OK, "threads", &error);
  check(executorch_app_open(values[1], NULL, &app, &error) == EXECUTORCH_APP_OK, "open", &error);
  printf("%zu: %s\n", executorch_app_program_count(app), executorch_app_program_name(app, 0));
  check(executorch_app_open_session(app, NULL, &session, &error) == EXECUTORCH_APP_OK, "session", &error);
  for (size_t i = 0; i < executorch_app_method_count(session); ++i) {
    printf("%s\n", executorch_app_method_name(session, i));
  }
  check_run(session);
  check_files(values[1]);
  check_long_sentence();
  check(executorch_app_open_chat(session, &options, &chat, &error) == EXECUTORCH_APP_OK, "chat", &error);
  check_chat(chat);
  executorch_app_close_chat(chat);
  executorch_app_close_session(session);
  // Allocators keep some memory of the first turns.
  converse_in_threads(app, 100);
  const long before = resident_pages();
  converse_in_threads(app, strtol(values[3], NULL, 10));
  printf("grew by %ld KiB\n", (resident_pages() - before) * (sysconf(_SC_PAGESIZE) / 1024));
  executorch_app_close(app);
  return 0;
}
