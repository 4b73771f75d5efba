package com.example.chat;

import android.app.Activity;
import android.os.Bundle;
import android.util.Log;
import android.view.View;
import android.widget.Button;
import android.widget.EditText;
import android.widget.LinearLayout;
import android.widget.ScrollView;
import android.widget.TextView;
import java.io.IOException;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import rulesexecutorch.Chat;
import rulesexecutorch.Programs;
import rulesexecutorch.runner.AppFiles;

/** A chat with a language model. If the app has several programs, buttons ask which one answers. */
public final class ChatActivity extends Activity {
  private static final String TAG = "ExecuTorch";

  // Calls of programs take long: in this thread, one after the other.
  private final ExecutorService worker = Executors.newSingleThreadExecutor();
  private TextView text;
  private ScrollView scrolled;
  private LinearLayout choices;
  private LinearLayout entry;
  private EditText message;
  private Programs programs;
  private volatile Chat chat;

  @Override
  protected void onCreate(Bundle state) {
    super.onCreate(state);
    setContentView(layout());
    work(
        new Work() {
          @Override
          public void run() throws IOException {
            open();
          }
        });
  }

  @Override
  protected void onDestroy() {
    super.onDestroy();
    if (chat != null) {
      chat.stop();
    }
    work(
        new Work() {
          @Override
          public void run() {
            if (programs != null) {
              programs.close();
            }
          }
        });
    worker.shutdown();
  }

  private View layout() {
    text = new TextView(this);
    text.setTextIsSelectable(true);
    scrolled = new ScrollView(this);
    scrolled.addView(text);
    choices = new LinearLayout(this);
    choices.setOrientation(LinearLayout.VERTICAL);
    message = new EditText(this);
    message.setHint("Message");
    message.setMaxLines(4);
    Button button = new Button(this);
    button.setText("Send");
    button.setOnClickListener(
        new View.OnClickListener() {
          @Override
          public void onClick(View view) {
            send();
          }
        });
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

  private void open() throws IOException {
    append("Loading.\n");
    programs = Programs.open(AppFiles.unpack(this), new Programs.Options().state(getNoBackupFilesDir()));
    final List<String> names = programs.names();
    if (names.size() == 1) {
      begin(names.get(0));
      return;
    }
    append("Who answers?\n");
    runOnUiThread(
        new Runnable() {
          @Override
          public void run() {
            for (String name : names) {
              choices.addView(choice(name));
            }
          }
        });
  }

  private Button choice(final String name) {
    Button button = new Button(this);
    button.setText(name);
    button.setOnClickListener(
        new View.OnClickListener() {
          @Override
          public void onClick(View view) {
            choices.setVisibility(View.GONE);
            work(
                new Work() {
                  @Override
                  public void run() {
                    begin(name);
                  }
                });
          }
        });
    return button;
  }

  private void begin(String program) {
    chat = programs.load(program).chat();
    append("Ready.\n");
    runOnUiThread(
        new Runnable() {
          @Override
          public void run() {
            entry.setVisibility(View.VISIBLE);
          }
        });
  }

  private void send() {
    final String said = message.getText().toString().trim();
    if (said.isEmpty()) {
      return;
    }
    message.setText("");
    work(
        new Work() {
          @Override
          public void run() {
            append("\n> " + said + "\n");
            String answer = chat.say(said, listener).text();
            append("\n");
            Log.i(TAG, answer);
          }
        });
  }

  private final Chat.Listener listener =
      new Chat.Listener() {
        @Override
        public boolean onPart(String part) {
          append(part);
          return true;
        }
      };

  private interface Work {
    void run() throws IOException;
  }

  private void work(final Work work) {
    worker.execute(
        new Runnable() {
          @Override
          public void run() {
            try {
              work.run();
            } catch (IOException | RuntimeException | LinkageError error) {
              Log.e(TAG, "error", error);
              append("\nerror: " + error.getMessage() + "\n");
            }
          }
        });
  }

  private void append(final String part) {
    runOnUiThread(
        new Runnable() {
          @Override
          public void run() {
            text.append(part);
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
