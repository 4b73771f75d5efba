import java.io.File;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import rulesexecutorch.Answer;
import rulesexecutorch.Chat;
import rulesexecutorch.Program;
import rulesexecutorch.ProgramException;
import rulesexecutorch.Programs;
import rulesexecutorch.Tensor;

/**
 * Uses the classes as an app does: {@code AppMain PROGRAM TOKENIZER FOLDER TURNS} talks with a model that counts tokens.
 * Prints the sentences of errors, and fails at the first wrong result.
 */
public final class AppMain {
  private static File program;
  private static Chat.Options options;

  private abstract static class Work implements Runnable {
    Throwable failure;

    abstract void work() throws Exception;

    @Override
    public final void run() {
      try {
        work();
      } catch (Throwable error) {
        failure = error;
      }
    }

    /** Fails if one of them did. */
    static void all(Work... works) throws Exception {
      List<Thread> threads = new ArrayList<Thread>();
      for (Work work : works) {
        threads.add(new Thread(work));
        threads.get(threads.size() - 1).start();
      }
      for (int i = 0; i < works.length; i++) {
        threads.get(i).join();
        if (works[i].failure != null) {
          throw new AssertionError(works[i].failure);
        }
      }
    }
  }

  public static void main(String[] arguments) throws Exception {
    program = new File(arguments[0]);
    options = new Chat.Options().tokenizer(new File(arguments[1])).raw(true).maxNewTokens(4);
    File folder = new File(arguments[2]);
    try (Programs programs = Programs.open(program)) {
      equal(programs.names(), Arrays.asList(program.getPath()));
      runs(programs);
      chats(programs);
      saves(programs, folder);
      listens(programs);
      isStopped(programs);
      isClosedWhileItAnswers(programs);
      turnsInThreads(programs, Integer.parseInt(arguments[3]));
    }
    closes();
    refuses();
  }

  private static void runs(Programs programs) {
    try (Program loaded = programs.load()) {
      System.out.println(loaded.methods());
      List<Tensor> outputs = loaded.run(Tensor.of(new long[] {5, 5, 5}, 1, 3), Tensor.of(new long[] {4}, 1));
      equal(outputs.size(), 1);
      equal(outputs.get(0).toString(), "float32 [1, 256]");
      // Seven tokens were seen.
      equal(outputs.get(0).floats()[7], 1f);
      loaded.run("forward", Tensor.of(new long[] {5}, 1, 1), Tensor.of(new long[] {0}, 1));
      equal(outputs.get(0).data().getFloat(4 * 7), 1f);
      // A part of a buffer, and one of Java's own.
      ByteBuffer direct = ByteBuffer.allocateDirect(24).order(ByteOrder.nativeOrder());
      direct.position(8);
      Tensor tokens = Tensor.of("int64", direct, 1, 2);
      Tensor position = Tensor.of("int64", ByteBuffer.allocate(8), 1);
      equal(loaded.run(tokens, position).get(0).floats()[2], 1f);
      // Metadata as ExecuTorch's LlmModule reads it.
      equal(loaded.run("get_max_context_len").get(0).longs()[0], 16L);
      List<Tensor> ends = loaded.run("get_eos_ids");
      equal(Arrays.asList(ends.get(0).longs()[0], ends.get(1).longs()[0]), Arrays.asList(2L, 3L));
      try {
        loaded.run(Tensor.of(new float[3], 1, 3), position);
        fail();
      } catch (ProgramException error) {
        expect(error, ProgramException.Code.INVALID_ARGUMENT);
      }
      try {
        loaded.run(Tensor.of("int64", ByteBuffer.allocateDirect(8), 1, 2), position);
        fail();
      } catch (ProgramException error) {
        expect(error, ProgramException.Code.INVALID_ARGUMENT);
      }
      try {
        loaded.run("wälk 🦊", position);
        fail();
      } catch (ProgramException error) {
        expect(error, ProgramException.Code.INVALID_ARGUMENT);
      }
      try {
        outputs.get(0).longs();
        fail();
      } catch (ProgramException error) {
        expect(error, ProgramException.Code.INVALID_ARGUMENT);
      }
    }
  }

  private static void chats(Programs programs) {
    try (Program loaded = programs.load();
        Chat chat = loaded.chat(options)) {
      // Each byte is a token.
      equal(chat.countTokens("🦊é"), 6);
      equal(chat.room(), 16);
      Answer answer = chat.say("aaaaaa");
      equal(answer.text(), "'()*");
      equal(answer.reason(), "length");
      equal(answer.promptTokens(), 6L);
      equal(answer.tokens(), 4L);
      equal(answer.decodeTokens(), 3L);
      equal(answer.prefillMs() > 0 && answer.decodeMs() > 0, true);
      equal(chat.say("a").text(), ",-./");
      equal(chat.turns(), 2);
      equal(chat.room(), 1);
      try {
        chat.say("aaa");
        fail();
      } catch (ProgramException error) {
        expect(error, ProgramException.Code.CONTEXT_FULL);
      }
      chat.rewind(1);
      equal(chat.say("a").text(), ",-./");
      try {
        chat.rewind(3);
        fail();
      } catch (ProgramException error) {
        expect(error, ProgramException.Code.INVALID_ARGUMENT);
      }
      try {
        chat.rewind(-1);
        fail();
      } catch (ProgramException error) {
        equal(error.code(), ProgramException.Code.INVALID_ARGUMENT);
      }
      try {
        loaded.chat(options);
        fail();
      } catch (ProgramException error) {
        expect(error, ProgramException.Code.INVALID_ARGUMENT);
      }
      for (String message : new String[] {null, "a\0b"}) {
        try {
          chat.say(message);
          fail();
        } catch (ProgramException error) {
          expect(error, ProgramException.Code.INVALID_ARGUMENT);
        }
      }
      equal(chat.turns(), 2);
      chat.close();
      try (Chat next = loaded.chat(options)) {
        equal(next.say("aaaaaa").text(), "'()*");
      }
    }
  }

  private static void saves(Programs programs, File folder) {
    File saved = new File(folder, "saved 🦊.chat");
    try (Program loaded = programs.load();
        Chat chat = loaded.chat(options)) {
      chat.say("aaaaaa");
      chat.save(saved);
      equal(saved.isFile(), true);
    }
    try (Program loaded = programs.load();
        Chat chat = loaded.chat(options)) {
      chat.restore(saved);
      equal(chat.say("a").text(), ",-./");
      chat.rewind(1);
      // The same program, whose cache is empty then.
      chat.switchAdapter(null);
      equal(chat.say("a").text(), ",-./");
      try {
        chat.restore(new File(folder, "none.chat"));
        fail();
      } catch (ProgramException error) {
        expect(error, ProgramException.Code.INVALID_FILES);
      }
      try {
        chat.switchAdapter("none");
        fail();
      } catch (ProgramException error) {
        expect(error, ProgramException.Code.INVALID_ARGUMENT);
      }
    }
  }

  private static void listens(Programs programs) {
    try (final Program loaded = programs.load();
        final Chat chat = loaded.chat(options)) {
      final StringBuilder heard = new StringBuilder();
      Answer answer =
          chat.say(
              "aaaaaa",
              new Chat.Listener() {
                @Override
                public boolean onPart(String text) {
                  heard.append(text);
                  return heard.length() < 2;
                }
              });
      equal(answer.reason(), "stopped");
      equal(heard.toString(), "'(");
      equal(answer.text(), "'(");
      chat.rewind(0);
      try {
        chat.say(
            "aaaaaa",
            new Chat.Listener() {
              @Override
              public boolean onPart(String text) {
                throw new IllegalStateException("thrown by the listener");
              }
            });
        fail();
      } catch (IllegalStateException error) {
        equal(error.getMessage(), "thrown by the listener");
      }
      chat.rewind(0);
      // Objects that would free the memory below native code.
      final List<AutoCloseable> opened = Arrays.<AutoCloseable>asList(chat, loaded);
      answer =
          chat.say(
              "aaaaaa",
              new Chat.Listener() {
                @Override
                public boolean onPart(String text) {
                  try {
                    opened.get(text.charAt(0) % 2).close();
                    fail();
                  } catch (ProgramException error) {
                    equal(error.code(), ProgramException.Code.INVALID_ARGUMENT);
                  } catch (Exception error) {
                    throw new AssertionError(error);
                  }
                  try {
                    chat.say("a");
                    fail();
                  } catch (ProgramException error) {
                    equal(error.code(), ProgramException.Code.INVALID_ARGUMENT);
                  }
                  return true;
                }
              });
      equal(answer.text(), "'()*");
      equal(chat.say("a").text(), ",-./");
    }
  }

  private static void isStopped(Programs programs) throws Exception {
    try (Program loaded = programs.load();
        final Chat chat = loaded.chat(options)) {
      final CountDownLatch answering = new CountDownLatch(1);
      final CountDownLatch stopped = new CountDownLatch(1);
      Work.all(
          new Work() {
            @Override
            void work() {
              Answer answer =
                  chat.say(
                      "aaaaaa",
                      new Chat.Listener() {
                        @Override
                        public boolean onPart(String text) {
                          answering.countDown();
                          await(stopped);
                          return true;
                        }
                      });
              equal(answer.reason(), "stopped");
              equal(answer.tokens(), 1L);
            }
          },
          new Work() {
            @Override
            void work() {
              await(answering);
              chat.stop();
              stopped.countDown();
            }
          });
      chat.rewind(0);
      equal(chat.say("aaaaaa").text(), "'()*");
    }
  }

  private static void isClosedWhileItAnswers(Programs programs) throws Exception {
    final Program loaded = programs.load();
    final Chat chat = loaded.chat(options);
    final CountDownLatch answering = new CountDownLatch(1);
    final Thread[] closer = new Thread[1];
    Work.all(
        new Work() {
          @Override
          void work() {
            Answer answer =
                chat.say(
                    "aaaaaa",
                    new Chat.Listener() {
                      @Override
                      public boolean onPart(String text) {
                        answering.countDown();
                        // Until the other thread waits for this one.
                        while (closer[0] == null || closer[0].getState() != Thread.State.WAITING) {
                          Thread.yield();
                        }
                        return true;
                      }
                    });
            equal(answer.reason(), "stopped");
          }
        },
        new Work() {
          @Override
          void work() {
            await(answering);
            closer[0] = Thread.currentThread();
            loaded.close();
          }
        });
    isClosed(chat, loaded);
  }

  private static void turnsInThreads(final Programs programs, final int turns) throws Exception {
    Work[] works = new Work[2];
    for (int i = 0; i < works.length; i++) {
      works[i] =
          new Work() {
            @Override
            void work() {
              try (Program loaded = programs.load();
                  Chat chat = loaded.chat(options)) {
                for (int turn = 0; turn < turns; turn++) {
                  if (turn % 2 == 0) {
                    chat.rewind(0);
                  }
                  equal(chat.say(turn % 2 == 0 ? "aaaaaa" : "a").text(), turn % 2 == 0 ? "'()*" : ",-./");
                  equal(
                      loaded.run("get_max_seq_len").get(0).longs()[0], 4L);
                }
              }
            }
          };
    }
    Work.all(works);
  }

  private static void closes() {
    Programs programs = Programs.open(program, new Programs.Options().weightCache(false));
    Program loaded = programs.load();
    Chat chat = loaded.chat(options);
    chat.say("a");
    programs.close();
    isClosed(chat, loaded);
    try {
      programs.load();
      fail();
    } catch (ProgramException error) {
      expect(error, ProgramException.Code.INVALID_ARGUMENT);
    }
    chat.close();
    loaded.close();
    programs.close();
    chat.stop();
  }

  private static void isClosed(Chat chat, Program loaded) {
    try {
      chat.say("a");
      fail();
    } catch (ProgramException error) {
      expect(error, ProgramException.Code.INVALID_ARGUMENT);
    }
    try {
      loaded.run();
      fail();
    } catch (ProgramException error) {
      expect(error, ProgramException.Code.INVALID_ARGUMENT);
    }
  }

  private static void refuses() {
    try {
      Programs.open(new File("missing 🦊.pte"));
      fail();
    } catch (ProgramException error) {
      expect(error, ProgramException.Code.INVALID_FILES);
    }
    try {
      Programs.open(program, new Programs.Options().data(new File("none.ptd"))).close();
      fail();
    } catch (ProgramException error) {
      expect(error, ProgramException.Code.INVALID_FILES);
    }
    try (Programs programs = Programs.open(program);
        Program loaded = programs.load();
        Chat chat = loaded.chat(new Chat.Options().tokenizer(program))) {
      fail();
    } catch (ProgramException error) {
      equal(error.code(), ProgramException.Code.INVALID_FILES);
    }
    try (Programs programs = Programs.open(program);
        Program loaded = programs.load();
        Chat chat = loaded.chat(options.seed(-1))) {
      fail();
    } catch (ProgramException error) {
      expect(error, ProgramException.Code.INVALID_ARGUMENT);
    }
  }

  private static void expect(ProgramException error, ProgramException.Code code) {
    System.out.println(error.getMessage());
    equal(error.code(), code);
  }

  private static void equal(Object got, Object expected) {
    if (!got.equals(expected)) {
      throw new AssertionError("got " + got + ", expected " + expected);
    }
  }

  private static void fail() {
    throw new AssertionError("no exception");
  }

  private static void await(CountDownLatch latch) {
    try {
      latch.await();
    } catch (InterruptedException error) {
      throw new AssertionError(error);
    }
  }
}
