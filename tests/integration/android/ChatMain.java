package rulesexecutorch.runner;

import java.io.File;
import java.util.Arrays;

/** Prints a message as RunActivity sends it, and the command line of an app with the files that follow. */
public final class ChatMain {
  public static void main(String[] arguments) {
    byte[] line = Arguments.lineOf(arguments[0]);
    System.out.write(line, 0, line.length);
    if (Arguments.canChat(Arrays.asList(arguments).subList(1, arguments.length))) {
      for (String argument : Arguments.ofChat(new File("/app"), "llama")) {
        System.out.println(argument);
      }
    } else {
      System.out.println("no chat");
    }
    System.out.flush();
  }
}
