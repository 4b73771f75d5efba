package rulesexecutorch.runner;

import android.content.Context;
import android.content.res.AssetFileDescriptor;
import android.content.res.AssetManager;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileNotFoundException;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Iterator;
import org.json.JSONException;
import org.json.JSONObject;

/** The programs and data of an APK as files, which native code can map. */
public final class AppFiles {
  private static final String MANIFEST = "manifest.json";
  private static final int BLOCK = 1 << 20;

  private AppFiles() {}

  /**
   * Copies the files of the manifest from the APK, unless that was done before.
   *
   * <p>Takes seconds for gigabytes: not for the UI thread, and for one caller at a time.
   *
   * @return the folder with manifest.json, programs/, data/ and assets/
   * @throws IOException if the APK has no such files, or the device has no space for them
   */
  public static synchronized File unpack(Context context) throws IOException {
    AssetManager assets = context.getAssets();
    byte[] manifest = read(assets.open(MANIFEST, AssetManager.ACCESS_STREAMING));
    // Not in backups: the APK contains them.
    File all = new File(context.getNoBackupFilesDir(), "executorch");
    File unpacked = new File(all, digest(manifest));
    if (unpacked.isDirectory()) {
      return unpacked;
    }
    // Deletes files of an older version, or of an interrupted copy.
    delete(all);
    File unfinished = new File(all, "unfinished");
    try {
      JSONObject files = parsed(manifest).getJSONObject("files");
      for (Iterator<String> names = files.keys(); names.hasNext(); ) {
        String name = below(names.next());
        copy(assets, name, new File(unfinished, name), files.getJSONObject(name).getLong("size"));
      }
    } catch (JSONException error) {
      throw damaged(error);
    }
    try (OutputStream sink = new FileOutputStream(new File(unfinished, MANIFEST))) {
      sink.write(manifest);
    }
    if (!unfinished.renameTo(unpacked)) {
      throw new IOException(unfinished + " cannot be renamed to " + unpacked + ".");
    }
    return unpacked;
  }

  /**
   * Reads the programs, and the files that each of them loads.
   *
   * @param folder what {@link #unpack} returned
   * @throws IOException if it can't be read
   */
  public static JSONObject manifest(File folder) throws IOException {
    return parsed(read(new FileInputStream(new File(folder, MANIFEST))));
  }

  // Creates folders and writes files at the manifest's paths.
  private static String below(String name) throws IOException {
    for (String part : name.split("/", -1)) {
      boolean plain = !part.isEmpty() && !part.equals(".") && !part.equals("..");
      for (int i = 0; i < part.length(); ++i) {
        char letter = part.charAt(i);
        plain = plain && letter >= ' ' && letter != '\\' && letter != 0x7f;
      }
      if (!plain) {
        throw new IOException(
            "The app's " + MANIFEST + " names the file \"" + name + "\", expected a path below its folder.");
      }
    }
    return name;
  }

  private static void copy(AssetManager assets, String name, File file, long size) throws IOException {
    long copied;
    makeFolder(file.getParentFile());
    try (InputStream source = open(assets, name);
        OutputStream sink = new FileOutputStream(file)) {
      copied = copy(source, sink);
    } catch (IOException error) {
      throw new IOException(name + " cannot be copied out of the APK: " + error.getMessage(), error);
    }
    if (copied != size) {
      throw new IOException(
          name + " in the APK has " + copied + " bytes, and its manifest says " + size + ".");
    }
  }

  private static InputStream open(AssetManager assets, String name) throws IOException {
    try {
      AssetFileDescriptor stored = assets.openFd(name);
      return stored.createInputStream();
    } catch (FileNotFoundException compressed) {
      return assets.open(name, AssetManager.ACCESS_STREAMING);
    }
  }

  private static long copy(InputStream source, OutputStream sink) throws IOException {
    long copied = 0;
    byte[] block = new byte[BLOCK];
    for (int count = source.read(block); count >= 0; count = source.read(block)) {
      sink.write(block, 0, count);
      copied += count;
    }
    return copied;
  }

  private static byte[] read(InputStream source) throws IOException {
    try {
      ByteArrayOutputStream all = new ByteArrayOutputStream();
      copy(source, all);
      return all.toByteArray();
    } finally {
      source.close();
    }
  }

  private static JSONObject parsed(byte[] manifest) throws IOException {
    try {
      return new JSONObject(new String(manifest, StandardCharsets.UTF_8));
    } catch (JSONException error) {
      throw damaged(error);
    }
  }

  private static IOException damaged(JSONException error) {
    return new IOException("The app's " + MANIFEST + " is damaged: " + error.getMessage(), error);
  }

  private static void makeFolder(File folder) throws IOException {
    if (!folder.isDirectory() && !folder.mkdirs()) {
      throw new IOException(folder + " cannot be created.");
    }
  }

  private static void delete(File file) throws IOException {
    File[] inside = file.listFiles();
    if (inside != null) {
      for (File child : inside) {
        delete(child);
      }
    }
    if (file.exists() && !file.delete()) {
      throw new IOException(file + " cannot be deleted.");
    }
  }

  private static String digest(byte[] contents) throws IOException {
    try {
      StringBuilder text = new StringBuilder();
      for (byte value : MessageDigest.getInstance("SHA-256").digest(contents)) {
        text.append(String.format("%02x", value));
      }
      return text.toString();
    } catch (NoSuchAlgorithmException error) {
      throw new IOException(error);
    }
  }
}
