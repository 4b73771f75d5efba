import java.io.File;
import rulesexecutorch.ProgramException;
import rulesexecutorch.Programs;

/** Opens an app with variants as an app does: {@code VariantsMain FOLDER STATE}; prints what became of them. */
public final class VariantsMain {
  public static void main(String[] arguments) {
    File folder = new File(arguments[0]);
    Programs.Options options = new Programs.Options().state(new File(arguments[1]));
    for (String memory : new String[] {"8", "2"}) {
      try (Programs app = Programs.open(folder, options.device("ram_gb", memory))) {
        print(app);
      }
    }
    try (Programs app = Programs.open(folder, new Programs.Options().variants("large"))) {
      print(app);
      System.out.println(app.variant("other"));
    }
    try {
      Programs.open(folder, new Programs.Options().variants("chat"));
    } catch (ProgramException error) {
      System.out.println(error.getMessage());
    }
  }

  private static void print(Programs app) {
    app.load("chat").close();
    System.out.println(app.names() + " " + app.variant(null).replaceAll("\\s+", " "));
  }
}
