package rulesexecutorch.runner;

import java.io.File;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;

/**
 * The runner's command line for an app.
 *
 * <p>Any app on the device can start RunActivity with arguments. So it accepts only options that access no files
 * except the app's own: nothing that names a path.
 */
final class Arguments {
  private static final List<String> FLAGS =
      Arrays.asList(
          "--help",
          "--json",
          "--list",
          "--parse_special",
          "--raw_prompt",
          "--runtime_info",
          "--verify",
          "--weight_cache");
  private static final List<String> WITH_VALUE =
      Arrays.asList(
          "--max_new_tokens",
          "--method",
          "--program",
          "--prompt",
          "--repeat",
          "--seed",
          "--system",
          "--temperature",
          "--threads");

  private Arguments() {}

  /**
   * Creates the command line.
   *
   * @param folder with the app's files and its manifest
   * @param programs names of the app's programs
   * @param extra arguments of the caller
   * @throws IllegalArgumentException if the app does not accept one of them
   */
  static String[] of(File folder, Collection<String> programs, String[] extra) {
    List<String> arguments = new ArrayList<String>();
    arguments.add("--app");
    arguments.add(folder.getPath());
    for (int i = 0; i < extra.length; i++) {
      String argument = checked(extra[i]);
      arguments.add(argument);
      if (FLAGS.contains(argument)) {
        continue;
      }
      // Like the runner: "--option=value", or "--option" and then any value.
      int equals = argument.indexOf('=');
      String option = equals < 0 ? argument : argument.substring(0, equals);
      if (!WITH_VALUE.contains(option)) {
        throw new IllegalArgumentException(
            "the app takes no argument \"" + argument + "\". It takes: " + FLAGS + " and, with a value, "
                + WITH_VALUE + ".");
      }
      String value = argument.substring(equals + 1);
      if (equals < 0) {
        if (++i == extra.length) {
          throw new IllegalArgumentException(option + " has no value.");
        }
        value = checked(extra[i]);
        arguments.add(value);
      }
      if (option.equals("--program") && !programs.contains(value)) {
        throw new IllegalArgumentException(
            "--program: got \"" + value + "\", expected one of the app's programs: " + programs + ".");
      }
    }
    return arguments.toArray(new String[0]);
  }

  /**
   * The command line of a conversation: each line of the runner's input is a message.
   *
   * @param folder with the app's files and its manifest
   * @param program name of the app's program that answers
   */
  static String[] ofChat(File folder, String program) {
    return new String[] {"--app", folder.getPath(), "--program", program, "--chat"};
  }

  /**
   * Whether the app has what a conversation needs: a chat format beside a tokenizer.
   *
   * @param files paths of the app's files
   */
  static boolean canChat(Iterable<String> files) {
    for (String file : files) {
      if (file.endsWith("/chat_format.json")) {
        return true;
      }
    }
    return false;
  }

  /** A message as a line for the runner, which reads a message from each line. */
  static byte[] lineOf(String message) {
    return (message.replaceAll("\\s*\\R\\s*", " ").trim() + "\n").getBytes(StandardCharsets.UTF_8);
  }

  private static String checked(String argument) {
    if (argument == null || argument.indexOf('\0') >= 0) {
      throw new IllegalArgumentException("an argument is null or contains the character U+0000.");
    }
    return argument;
  }
}
