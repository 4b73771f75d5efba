import java.io.File;
import java.io.PrintStream;
import java.util.Arrays;
import rulesexecutorch.Chat;
import rulesexecutorch.Program;
import rulesexecutorch.Programs;
import rulesexecutorch.Tensor;

/**
 * Runs a program of an app as an app's own code does: {@code ProgramsMain FOLDER PROGRAM} with ones, {@code ProgramsMain
 * FOLDER PROGRAM MESSAGE} with a message.
 */
public final class ProgramsMain {
  public static void main(String[] arguments) throws Exception {
    PrintStream out = new PrintStream(System.out, true, "UTF-8");
    try (Programs programs = Programs.open(new File(arguments[0]));
        Program program = programs.load(arguments[1])) {
      out.print(programs.names() + " " + arguments[1] + " ");
      if (arguments.length > 2) {
        try (Chat chat = program.chat(new Chat.Options().maxNewTokens(8))) {
          out.println(chat.say(arguments[2]).text());
        }
        return;
      }
      float[] ones = new float[32];
      Arrays.fill(ones, 1f);
      Tensor output = program.run(Tensor.of(ones, 2, 16)).get(0);
      out.println(output);
      for (float number : output.floats()) {
        out.println(number);
      }
    }
  }
}
