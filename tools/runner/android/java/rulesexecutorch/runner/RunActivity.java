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
import android.view.View;
import android.widget.Button;
import android.widget.EditText;
import android.widget.LinearLayout;
import android.widget.ScrollView;
import android.widget.TextView;
import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicBoolean;
import org.json.JSONArray;
import org.json.JSONException;
import org.json.JSONObject;

/**
 * Chats with the app's language model, if there is one. Otherwise runs all programs of the app. Shows the runner's
 * output, also in the log.
 *
 * <p>Arguments for the runner, instead of a conversation: adb shell am start -n
 * PACKAGE/rulesexecutorch.runner.RunActivity --esa args --repeat,10
 *
 * <p>{@link Arguments} lists the accepted ones: any app may start this one.
 */
public final class RunActivity extends Activity {
  private static final String TAG = "ExecuTorch";

  private final ExecutorService sender = Executors.newSingleThreadExecutor();
  private final StringBuilder line = new StringBuilder();
  private TextView text;
  private ScrollView scrolled;
  private LinearLayout choices;
  private LinearLayout entry;
  private EditText message;
  private volatile OutputStream messages;

  @Override
  protected void onCreate(Bundle state) {
    super.onCreate(state);
    setContentView(layout());
    String[] given = getIntent().getStringArrayExtra("args");
    final String[] extra = given == null ? new String[0] : given;
    inBackground(
        new Work() {
          @Override
          public void run() throws IOException, JSONException {
            prepareAndRun(extra);
          }
        });
  }

  @Override
  protected void onDestroy() {
    super.onDestroy();
    // The runner ends with its input.
    send(null);
    sender.shutdown();
  }

  private View layout() {
    text = new TextView(this);
    text.setTypeface(Typeface.MONOSPACE);
    text.setTextIsSelectable(true);
    scrolled = new ScrollView(this);
    scrolled.addView(text);
    message = new EditText(this);
    message.setHint("Message");
    message.setMaxLines(4);
    Button button = new Button(this);
    button.setText("Send");
    button.setOnClickListener(
        new View.OnClickListener() {
          @Override
          public void onClick(View view) {
            sendMessage();
          }
        });
    choices = new LinearLayout(this);
    choices.setOrientation(LinearLayout.VERTICAL);
    entry = new LinearLayout(this);
    entry.addView(message, new LinearLayout.LayoutParams(0, LinearLayout.LayoutParams.WRAP_CONTENT, 1));
    entry.addView(button);
    entry.setVisibility(View.GONE);
    LinearLayout all = new LinearLayout(this);
    all.setOrientation(LinearLayout.VERTICAL);
    all.setFitsSystemWindows(true);
    all.addView(scrolled, new LinearLayout.LayoutParams(LinearLayout.LayoutParams.MATCH_PARENT, 0, 1));
    all.addView(choices);
    all.addView(entry);
    return all;
  }

  private void prepareAndRun(String[] extra) throws IOException, JSONException {
    show("Copying files.");
    File folder = AppFiles.unpack(this);
    JSONObject manifest = AppFiles.manifest(folder);
    List<String> files = new ArrayList<String>();
    for (Iterator<String> names = manifest.getJSONObject("files").keys(); names.hasNext(); ) {
      files.add(names.next());
    }
    JSONArray programs = manifest.getJSONArray("programs");
    List<String> names = new ArrayList<String>();
    for (int i = 0; i < programs.length(); i++) {
      names.add(programs.getJSONObject(i).getString("name"));
    }
    if (extra.length > 0 || !Arguments.canChat(files)) {
      run(Arguments.of(folder, names, extra), false);
    } else if (names.size() == 1) {
      run(Arguments.ofChat(folder, names.get(0)), true);
    } else {
      askWhoAnswers(folder, names);
    }
  }

  /** A button for each program: a base and its adapters, for example. */
  private void askWhoAnswers(final File folder, final List<String> names) {
    show("Who answers?");
    runOnUiThread(
        new Runnable() {
          @Override
          public void run() {
            for (final String name : names) {
              Button button = new Button(RunActivity.this);
              button.setText(name);
              button.setOnClickListener(
                  new View.OnClickListener() {
                    @Override
                    public void onClick(View view) {
                      choices.setVisibility(View.GONE);
                      inBackground(
                          new Work() {
                            @Override
                            public void run() throws IOException {
                              RunActivity.this.run(Arguments.ofChat(folder, name), true);
                            }
                          });
                    }
                  });
              choices.addView(button);
            }
          }
        });
  }

  private interface Work {
    void run() throws IOException, JSONException;
  }

  private void inBackground(final Work work) {
    Runnable whole =
        new Runnable() {
          @Override
          public void run() {
            try {
              work.run();
            } catch (IOException error) {
              show("error: " + error.getMessage());
            } catch (JSONException error) {
              show("error: the app's manifest is damaged: " + error.getMessage());
            } catch (IllegalArgumentException error) {
              show("error: " + error.getMessage());
            }
          }
        };
    new Thread(whole, "app").start();
  }

  private void run(String[] arguments, boolean chats) throws IOException {
    ParcelFileDescriptor[] input = ParcelFileDescriptor.createPipe();
    ParcelFileDescriptor[] output = ParcelFileDescriptor.createPipe();
    messages = new ParcelFileDescriptor.AutoCloseOutputStream(input[1]);
    if (!chats) {
      messages.close();
    }
    show(chats ? "Loading." : "Running.");
    ServiceConnection service = start(arguments, input[0], output[1]);
    showEntry(chats);
    try (Reader reader = reader(output[0])) {
      // The pipe ends with the runner's process.
      char[] part = new char[1024];
      for (int count = reader.read(part); count >= 0; count = reader.read(part)) {
        append(new String(part, 0, count));
      }
    }
    unbindService(service);
    showEntry(false);
    show("Done.");
  }

  private void sendMessage() {
    final String said = message.getText().toString().trim();
    if (!said.isEmpty()) {
      message.setText("");
      append("\n> " + said + "\n");
      send(said);
    }
  }

  /** Writes a message to the runner, or with null ends its input. */
  private void send(final String said) {
    Runnable work =
        new Runnable() {
          @Override
          public void run() {
            try {
              if (said != null) {
                messages.write(Arguments.lineOf(said));
                messages.flush();
              } else if (messages != null) {
                messages.close();
              }
            } catch (IOException error) {
              show("error: the runner does not read messages: " + error.getMessage());
            }
          }
        };
    sender.execute(work);
  }

  private ServiceConnection start(
      final String[] arguments, final ParcelFileDescriptor input, final ParcelFileDescriptor output) {
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
              input.writeToParcel(data, 0);
              output.writeToParcel(data, 0);
              service.transact(RunService.RUN, data, null, IBinder.FLAG_ONEWAY);
            } catch (RemoteException error) {
              show("error: the runner's process cannot be reached: " + error.getMessage());
            } finally {
              data.recycle();
              close(input);
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

  private static Reader reader(ParcelFileDescriptor pipe) {
    FileInputStream stream = new ParcelFileDescriptor.AutoCloseInputStream(pipe);
    return new InputStreamReader(stream, StandardCharsets.UTF_8);
  }

  private void showEntry(final boolean isShown) {
    runOnUiThread(
        new Runnable() {
          @Override
          public void run() {
            entry.setVisibility(isShown ? View.VISIBLE : View.GONE);
          }
        });
  }

  private void show(String words) {
    append(words + "\n");
  }

  /** Shows a part of the output as it comes, and whole lines in the log. */
  private void append(final String part) {
    runOnUiThread(
        new Runnable() {
          @Override
          public void run() {
            text.append(part);
            line.append(part);
            for (int end = line.indexOf("\n"); end >= 0; end = line.indexOf("\n")) {
              Log.i(TAG, line.substring(0, end));
              line.delete(0, end + 1);
            }
            scrolled.post(
                new Runnable() {
                  @Override
                  public void run() {
                    scrolled.smoothScrollTo(0, text.getBottom());
                  }
                });
          }
        });
  }
}
