package com.example.chat;

import android.content.Context;
import android.content.res.AssetManager;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.Arrays;

/**
 * Copies the files of et_assets out of the APK, because ExecuTorch loads programs by path.
 *
 * <p>manifest.json has the hash of each file and is written last. So the files are copied again
 * after an update with other files, and after a copy that did not finish.
 */
final class AppAssets {
  private static final String MANIFEST = "manifest.json";
  private static final String[] FOLDERS = {"assets", "data", "programs"};

  private final File folder;

  /** Copies the files if they are not there yet. This takes a while: not for the main thread. */
  AppAssets(Context context) throws IOException {
    folder = new File(context.getFilesDir(), "executorch");
    AssetManager assets = context.getAssets();
    File manifest = file(MANIFEST);
    if (manifest.exists()) {
      byte[] copied = bytes(new FileInputStream(manifest));
      if (Arrays.equals(copied, bytes(assets.open(MANIFEST)))) {
        return;
      }
      manifest.delete();
    }
    for (String name : FOLDERS) {
      copy(assets, name);
    }
    copy(assets, MANIFEST);
  }

  /** A file by its path in manifest.json, such as "programs/net_xnnpack.pte". */
  File file(String path) {
    return new File(folder, path);
  }

  private void copy(AssetManager assets, String path) throws IOException {
    String[] names = assets.list(path);
    if (names != null && names.length > 0) {
      for (String name : names) {
        copy(assets, path + "/" + name);
      }
      return;
    }
    File file = file(path);
    file.getParentFile().mkdirs();
    try (InputStream in = assets.open(path);
        OutputStream out = new FileOutputStream(file)) {
      copy(in, out);
    }
  }

  private static byte[] bytes(InputStream stream) throws IOException {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    try (InputStream in = stream) {
      copy(in, out);
    }
    return out.toByteArray();
  }

  private static void copy(InputStream in, OutputStream out) throws IOException {
    byte[] buffer = new byte[1 << 20];
    for (int count = in.read(buffer); count > 0; count = in.read(buffer)) {
      out.write(buffer, 0, count);
    }
  }
}
