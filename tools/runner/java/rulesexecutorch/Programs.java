package rulesexecutorch;

import java.io.File;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.locks.ReentrantLock;

/** An app's programs, or a program's files. */
public final class Programs extends Handle implements AutoCloseable {
  /** Options of {@link #open(File, Options)}; each method returns its object. */
  public static final class Options {
    private File manifest;
    private File[] data = {};
    private boolean verify;
    private Boolean weightCache;
    private String[] variants = {};
    private final List<String> device = new ArrayList<String>();
    private File state;

    /** The manifest of a .pte file; default: FILE.manifest.json beside it, if it exists. */
    public Options manifest(File manifest) {
      this.manifest = manifest;
      return this;
    }

    /** A .pte file's data files, if its manifest has other ones or none. */
    public Options data(File... data) {
      this.data = Native.required("data", data).clone();
      return this;
    }

    /** Checks the files' SHA-256, too; default: false. */
    public Options verify(boolean verify) {
      this.verify = verify;
      return this;
    }

    /**
     * Lets XNNPACK pack common weights once for all programs. True: an error if that is unsafe; default: where the
     * manifests prove that it is safe.
     */
    public Options weightCache(boolean weightCache) {
      this.weightCache = weightCache;
      return this;
    }

    /** Programs to take where they are among variants, whatever the device is. */
    public Options variants(String... names) {
      this.variants = Native.required("variants", names).clone();
      return this;
    }

    /** A fact in place of the device's own: "soc", "SM8650". */
    public Options device(String fact, String value) {
      device.add(Native.required("fact", fact) + "=" + Native.required("value", value));
      return this;
    }

    /**
     * A folder that remembers variants whose loading ended the process, so that they are not tried again. On Android, take
     * Context.getNoBackupFilesDir(): what one device remembers is not true of another.
     */
    public Options state(File folder) {
      this.state = folder;
      return this;
    }
  }

  // Both with the lock held.
  private final List<Program> loaded = new ArrayList<Program>();
  private boolean closing;

  private Programs(long address) {
    super(address, new ReentrantLock());
  }

  /**
   * Opens an app, with the default options.
   *
   * @param path an app's folder, its manifest.json, or a .pte file
   * @throws ProgramException as {@link #open(File, Options)}
   */
  public static Programs open(File path) {
    return open(path, new Options());
  }

  /**
   * Opens an app: maps its files and checks them.
   *
   * @param path an app's folder, its manifest.json, or a .pte file
   * @throws ProgramException if a file is missing or damaged, or does not belong to the others
   */
  public static Programs open(File path, Options options) {
    return new Programs(
        Native.open(
            encoded("path", Native.required("path", path)),
            encoded("manifest", Native.required("options", options).manifest),
            encoded(options.data),
            options.verify,
            Boolean.TRUE.equals(options.weightCache),
            Boolean.FALSE.equals(options.weightCache),
            encoded("variants", options.variants),
            encoded("device", options.device.toArray(new String[0])),
            encoded("state", options.state)));
  }

  /**
   * The choice among variants of the app, as a JSON object: "program"; "skipped", better ones that the device cannot have, each
   * with "program" and "reason"; and "device", the facts that somebody asked for.
   *
   * @param name the variants'; null: the only ones
   * @return null, if the app has no such variants
   */
  public String variant(String name) {
    long app = enter();
    try {
      byte[] found = Native.variant(app, Native.encoded("name", name));
      return found == null ? null : Native.decoded(new byte[][] {found})[0];
    } finally {
      leave();
    }
  }

  /** Names of the programs; of a .pte file its path. */
  public List<String> names() {
    long app = enter();
    try {
      return Collections.unmodifiableList(Arrays.asList(Native.decoded(Native.programNames(app))));
    } finally {
      leave();
    }
  }

  /**
   * Loads the only program.
   *
   * @throws ProgramException if there are several, or the runtime cannot load it
   */
  public Program load() {
    return load(null);
  }

  /**
   * Loads a program with memory of its own. Programs share the mapped files, so one may be loaded several times.
   *
   * @param name one of {@link #names}
   * @throws ProgramException if there is no such program, or the runtime cannot load it
   */
  public Program load(String name) {
    long app = enter();
    try {
      if (closing) {
        throw isClosed();
      }
      Program program = new Program(this, Native.openSession(app, Native.encoded("name", name)));
      loaded.add(program);
      return program;
    } finally {
      leave();
    }
  }

  /**
   * Closes all programs and unmaps the files. Waits for calls in other threads; answers end after their next token.
   * The second time, it has no effect.
   */
  @Override
  public void close() {
    // Not with the lock held, because programs that are closed take it.
    for (Program program : lastLoaded()) {
      program.close();
    }
    super.close();
  }

  // No other is loaded after these.
  private List<Program> lastLoaded() {
    lock().lock();
    try {
      closing = true;
      return new ArrayList<Program>(loaded);
    } finally {
      lock().unlock();
    }
  }

  void forget(Program program) {
    lock().lock();
    try {
      loaded.remove(program);
    } finally {
      lock().unlock();
    }
  }

  @Override
  String what() {
    return "app";
  }

  @Override
  void free(long opened) {
    Native.close(opened);
  }

  static byte[] encoded(String what, File file) {
    return file == null ? null : Native.encoded(what, file.getPath());
  }

  private static byte[][] encoded(String what, String[] texts) {
    byte[][] all = new byte[texts.length][];
    for (int i = 0; i < texts.length; i++) {
      all[i] = Native.encoded(what, Native.required(what, texts[i]));
    }
    return all;
  }

  static byte[][] encoded(File[] files) {
    byte[][] all = new byte[Native.required("data", files).length][];
    for (int i = 0; i < files.length; i++) {
      all[i] = encoded("data", Native.required("data", files[i]));
    }
    return all;
  }
}
