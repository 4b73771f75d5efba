package rulesexecutorch.runner;

import java.io.File;
import java.util.Arrays;

/** Prints what RunActivity makes of arguments, each on a line, for an app with the programs "one" and "two". */
public final class ArgumentsMain {
  public static void main(String[] extra) throws Exception {
    // Command lines have no null.
    for (int i = 0; i < extra.length; i++) {
      extra[i] = extra[i].equals("(null)") ? null : extra[i].replace("(zero)", "\0");
    }
    StringBuilder lines = new StringBuilder();
    try {
      for (String argument : Arguments.of(new File("/app"), Arrays.asList("one", "two"), extra)) {
        lines.append(argument).append("\n");
      }
    } catch (IllegalArgumentException error) {
      lines.append("error: ").append(error.getMessage()).append("\n");
    }
    System.out.write(lines.toString().getBytes("UTF-8"));
    System.out.flush();
  }
}
