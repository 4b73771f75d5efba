package rulesexecutorch.runner;

import java.io.File;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.json.JSONArray;
import org.json.JSONException;
import org.json.JSONObject;

/** The runner's command line for all programs of an app. */
final class Arguments {
  private Arguments() {}

  /**
   * Makes the command line.
   *
   * @param manifest the app's
   * @param folder where its files are
   * @param extra arguments of the user, at the end
   */
  static String[] of(JSONObject manifest, File folder, String[] extra) throws JSONException {
    List<String> arguments = new ArrayList<String>();
    JSONArray programs = manifest.getJSONArray("programs");
    for (int i = 0; i < programs.length(); i++) {
      JSONObject program = programs.getJSONObject(i);
      add(arguments, "--program", folder, program.getString("file"));
      if (program.has("manifest")) {
        add(arguments, "--manifest", folder, program.getString("manifest"));
      }
      for (String file : dataFiles(program)) {
        add(arguments, "--data", folder, file);
      }
    }
    for (String argument : extra) {
      arguments.add(argument);
    }
    return arguments.toArray(new String[0]);
  }

  private static Set<String> dataFiles(JSONObject program) throws JSONException {
    Set<String> files = new LinkedHashSet<String>();
    JSONObject data = program.optJSONObject("data");
    if (data != null) {
      for (Iterator<String> names = data.keys(); names.hasNext(); ) {
        files.add(data.getString(names.next()));
      }
    }
    return files;
  }

  private static void add(List<String> arguments, String flag, File folder, String file) {
    arguments.add(flag);
    arguments.add(new File(folder, file).getPath());
  }
}
