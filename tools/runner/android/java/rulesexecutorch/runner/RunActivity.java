package rulesexecutorch.runner;

import android.app.Activity;
import android.content.ComponentName;
import android.content.Context;
import android.content.Intent;
import android.content.ServiceConnection;
import android.graphics.Typeface;
import android.os.Bundle;
import android.os.IBinder;
import android.os.Parcel;
import android.os.ParcelFileDescriptor;
import android.os.RemoteException;
import android.util.Log;
import android.widget.ScrollView;
import android.widget.TextView;
import java.io.BufferedReader;
import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import org.json.JSONArray;
import org.json.JSONException;

/**
 * Runs all programs of the app and shows the runner's output, also in the log.
 *
 * <p>Arguments for the runner: adb shell am start -n PACKAGE/rulesexecutorch.runner.RunActivity --esa
 * args --repeat,10
 *
 * <p>{@link Arguments} lists the accepted ones: any app may start this one.
 */
public final class RunActivity extends Activity {
  private static final String TAG = "ExecuTorch";

  private TextView text;

  @Override
  protected void onCreate(Bundle state) {
    super.onCreate(state);
    text = new TextView(this);
    text.setTypeface(Typeface.MONOSPACE);
    text.setTextIsSelectable(true);
    ScrollView scrolled = new ScrollView(this);
    scrolled.addView(text);
    setContentView(scrolled);
    String[] given = getIntent().getStringArrayExtra("args");
    final String[] extra = given == null ? new String[0] : given;
    Runnable work =
        new Runnable() {
          @Override
          public void run() {
            try {
              prepareAndRun(extra);
            } catch (IOException error) {
              show("error: " + error.getMessage());
            } catch (JSONException error) {
              show("error: the app's manifest is damaged: " + error.getMessage());
            } catch (IllegalArgumentException error) {
              show("error: " + error.getMessage());
            }
          }
        };
    new Thread(work, "app").start();
  }

  private void prepareAndRun(String[] extra) throws IOException, JSONException {
    show("Copying files.");
    File folder = AppFiles.unpack(this);
    JSONArray programs = AppFiles.manifest(folder).getJSONArray("programs");
    List<String> names = new ArrayList<String>();
    for (int i = 0; i < programs.length(); i++) {
      names.add(programs.getJSONObject(i).getString("name"));
    }
    String[] arguments = Arguments.of(folder, names, extra);
    show("Running.");
    ParcelFileDescriptor[] pipe = ParcelFileDescriptor.createPipe();
    ServiceConnection service = start(arguments, pipe[1]);
    try (BufferedReader lines = reader(pipe[0])) {
      // The pipe ends with the runner's process.
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        show(line);
      }
    }
    unbindService(service);
    show("Done.");
  }

  private ServiceConnection start(final String[] arguments, final ParcelFileDescriptor output) {
    final AtomicBoolean started = new AtomicBoolean();
    ServiceConnection connection =
        new ServiceConnection() {
          @Override
          public void onServiceConnected(ComponentName name, IBinder service) {
            // Android would restart an ended service.
            if (started.getAndSet(true)) {
              return;
            }
            Parcel data = Parcel.obtain();
            try {
              data.writeStringArray(arguments);
              output.writeToParcel(data, 0);
              service.transact(RunService.RUN, data, null, IBinder.FLAG_ONEWAY);
            } catch (RemoteException error) {
              show("error: the runner's process cannot be reached: " + error.getMessage());
            } finally {
              data.recycle();
              close(output);
            }
          }

          @Override
          public void onServiceDisconnected(ComponentName name) {}
        };
    bindService(new Intent(this, RunService.class), connection, Context.BIND_AUTO_CREATE);
    return connection;
  }

  private void close(ParcelFileDescriptor pipe) {
    try {
      pipe.close();
    } catch (IOException error) {
      show("error: " + error.getMessage());
    }
  }

  private static BufferedReader reader(ParcelFileDescriptor pipe) {
    FileInputStream stream = new ParcelFileDescriptor.AutoCloseInputStream(pipe);
    return new BufferedReader(new InputStreamReader(stream, StandardCharsets.UTF_8));
  }

  private void show(final String line) {
    Log.i(TAG, line);
    runOnUiThread(
        new Runnable() {
          @Override
          public void run() {
            text.append(line + "\n");
          }
        });
  }
}
