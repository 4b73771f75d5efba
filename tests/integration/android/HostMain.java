package rulesexecutorch.runner;

/** What RunService does, in a Java of this machine. */
public final class HostMain {
  public static void main(String[] arguments) {
    NativeRunner.run(arguments, 0, 1);
  }
}
