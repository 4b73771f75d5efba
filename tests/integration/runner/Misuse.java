import java.io.File;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Map;
import rulesexecutorch.Answer;
import rulesexecutorch.Chat;
import rulesexecutorch.Program;
import rulesexecutorch.ProgramException;
import rulesexecutorch.Programs;
import rulesexecutorch.Tensor;

/**
 * Calls each public method of the classes with each bad argument, from a listener, and after everything was closed:
 * {@code Misuse PROGRAM TOKENIZER FOLDER}. Each returns, or throws a ProgramException with a sentence. Prints what is
 * wrong, and how many calls it made.
 */
public final class Misuse {
  private static final Class<?>[] CLASSES = {
    Programs.class, Programs.Options.class, Program.class, Chat.class, Chat.Options.class, Tensor.class
  };
  private static final Map<Class<?>, Object> GOOD = new HashMap<Class<?>, Object>();
  private static final Map<Class<?>, Object[]> BAD = new HashMap<Class<?>, Object[]>();

  private static File model;
  private static Chat.Options options;
  private static Programs programs;
  private static Program program;
  private static Chat chat;
  private static int calls;
  private static int wrong;

  public static void main(String[] arguments) throws Exception {
    model = new File(arguments[0]);
    File tokenizer = new File(arguments[1]);
    options = new Chat.Options().tokenizer(tokenizer).raw(true).maxNewTokens(4);
    fill(new File(arguments[2], "saved.chat"));
    for (Class<?> type : CLASSES) {
      for (Method method : type.getDeclaredMethods()) {
        if (Modifier.isPublic(method.getModifiers()) && !method.isSynthetic()) {
          badArguments(method);
          fromAListener(method);
          afterClosing(method);
        }
      }
    }
    whatListenersThrow();
    System.out.println(calls + " calls, " + wrong + " wrong");
    System.exit(wrong == 0 ? 0 : 1);
  }

  private static void fill(File saved) {
    Tensor one = Tensor.of(new long[] {5}, 1, 1);
    Tensor position = Tensor.of(new long[] {0}, 1);
    Tensor[] many = new Tensor[300];
    java.util.Arrays.fill(many, one);
    put(File.class, saved, null, new File(""), new File("a\0b"), new File("none/none"));
    put(File[].class, new File[0], null, new File[] {null}, new File[] {new File("a\0b")}, new File[2000]);
    put(String[].class, new String[0], null, new String[] {null}, new String[] {"a\0b"}, new String[] {"none"});
    put(String.class, null, null, "", "a\0b", "\uD800", "none");
    put(int.class, 0, -1, Integer.MIN_VALUE, Integer.MAX_VALUE);
    put(double.class, 0.0, Double.NaN, -1.0, Double.POSITIVE_INFINITY);
    put(boolean.class, false, true);
    put(Tensor[].class, new Tensor[] {one, position}, null, new Tensor[] {null}, new Tensor[0], many);
    put(Tensor.class, one, new Object[] {null});
    put(Programs.Options.class, new Programs.Options(), new Object[] {null});
    put(Chat.Options.class, options, new Object[] {null});
    put(Chat.Listener.class, null, null, thrower(new IllegalStateException("mine")));
    put(ByteBuffer.class, ByteBuffer.allocate(8), null, ByteBuffer.allocate(0));
    put(long[].class, new long[] {1}, null, new long[] {-1}, new long[] {Long.MAX_VALUE, Long.MAX_VALUE}, new long[100]);
    put(int[].class, new int[] {1}, new Object[] {null});
    put(float[].class, new float[] {1}, new Object[] {null});
    put(double[].class, new double[] {1}, new Object[] {null});
  }

  private static void put(Class<?> type, Object good, Object... bad) {
    GOOD.put(type, good);
    BAD.put(type, bad == null ? new Object[] {null} : bad);
  }

  private static void open() {
    programs = Programs.open(model);
    program = programs.load();
    chat = program.chat(options);
    chat.say("aaa");
    chat.save((File) GOOD.get(File.class));
  }

  private static Object receiver(Method method) {
    Class<?> type = method.getDeclaringClass();
    return Modifier.isStatic(method.getModifiers())
        ? null
        : type == Programs.class
            ? programs
            : type == Program.class
                ? program
                : type == Chat.class
                    ? chat
                    : type == Tensor.class
                        ? Tensor.of(new long[] {5}, 1)
                        : type == Chat.Options.class ? new Chat.Options() : new Programs.Options();
  }

  private static Object[] goodArguments(Method method) {
    Class<?>[] types = method.getParameterTypes();
    Object[] arguments = new Object[types.length];
    for (int i = 0; i < types.length; i++) {
      if (!GOOD.containsKey(types[i])) {
        throw new AssertionError("no argument for " + types[i] + " of " + method + ": add it to the table.");
      }
      // A message, and a dtype, may not be null.
      arguments[i] = types[i] == String.class && !method.getName().equals("run") && i == 0 ? "float32" : GOOD.get(types[i]);
    }
    if (types.length > 0 && method.getName().matches("switchAdapter|load")) {
      arguments[0] = null;
    }
    if (method.getName().equals("open")) {
      arguments[0] = model;
    }
    return arguments;
  }

  // Returns what the method throws; null: nothing.
  private static Throwable call(Method method, Object[] arguments) throws Exception {
    calls++;
    try {
      method.invoke(receiver(method), arguments);
      return null;
    } catch (InvocationTargetException thrown) {
      return thrown.getCause();
    }
  }

  private static void check(boolean isRight, String what, Throwable thrown) {
    if (!isRight) {
      wrong++;
      System.out.println(what + ": " + thrown);
    }
  }

  private static boolean isSentence(Throwable thrown) {
    return thrown instanceof ProgramException && thrown.getMessage() != null && !thrown.getMessage().isEmpty();
  }

  private static void badArguments(Method method) throws Exception {
    Class<?>[] types = method.getParameterTypes();
    for (int i = 0; i < types.length; i++) {
      for (Object bad : BAD.get(types[i])) {
        open();
        Object[] arguments = goodArguments(method);
        arguments[i] = bad;
        Throwable thrown = call(method, arguments);
        boolean isOwn = bad instanceof Chat.Listener && thrown instanceof IllegalStateException;
        check(thrown == null || isOwn || isSentence(thrown), method + " with " + i + " = " + bad, thrown);
        programs.close();
      }
    }
  }

  private static void fromAListener(final Method method) throws Exception {
    open();
    chat.rewind(0);
    final String expected = chat.say("aaaaaa").text();
    chat.rewind(0);
    final Throwable[] thrown = new Throwable[1];
    Answer answer =
        chat.say(
            "aaaaaa",
            new Chat.Listener() {
              private boolean isDone;

              @Override
              public boolean onPart(String text) {
                if (!isDone) {
                  isDone = true;
                  try {
                    thrown[0] = call(method, goodArguments(method));
                  } catch (Exception error) {
                    thrown[0] = error;
                  }
                }
                return true;
              }
            });
    Class<?> type = method.getDeclaringClass();
    boolean isOwn = (type == Chat.class && !method.getName().equals("stop")) || type == Program.class;
    check(isOwn ? isSentence(thrown[0]) : thrown[0] == null || isSentence(thrown[0]), method + " of a listener", thrown[0]);
    boolean isStopped = method.getName().equals("stop");
    check(isStopped || answer.text().equals(expected), "the answer, after " + method, null);
    chat.rewind(0);
    check(chat.say("aaaaaa").text().equals(expected), "a later answer, after " + method, null);
    programs.close();
  }

  private static void afterClosing(Method method) throws Exception {
    open();
    programs.close();
    Throwable thrown = call(method, goodArguments(method));
    Class<?> type = method.getDeclaringClass();
    boolean isHandle = type == Programs.class || type == Program.class || type == Chat.class;
    boolean hasEffect = !Modifier.isStatic(method.getModifiers()) && !method.getName().matches("close|stop");
    check(
        isHandle && hasEffect ? isSentence(thrown) && thrown.getMessage().contains("closed") : thrown == null || isSentence(thrown),
        method + " after closing",
        thrown);
  }

  @SuppressWarnings("unchecked")
  private static <T extends Throwable> void sneak(Throwable thrown) throws T {
    throw (T) thrown;
  }

  private static Chat.Listener thrower(final Throwable thrown) {
    return new Chat.Listener() {
      @Override
      public boolean onPart(String text) {
        Misuse.<RuntimeException>sneak(thrown);
        return true;
      }
    };
  }

  private static void whatListenersThrow() {
    for (Throwable expected :
        new Throwable[] {new IOException("disk full"), new IllegalStateException("mine"), new StackOverflowError()}) {
      open();
      Throwable thrown = null;
      calls++;
      try {
        chat.say("aa", thrower(expected));
      } catch (Throwable caught) {
        thrown = caught;
      }
      check(thrown == expected, "what a listener throws", thrown);
      programs.close();
    }
  }
}
