package com.example.chat;

import android.app.Activity;
import android.os.Bundle;
import android.widget.ScrollView;
import android.widget.TextView;
import java.io.IOException;
import org.pytorch.executorch.EValue;
import org.pytorch.executorch.Module;
import org.pytorch.executorch.Tensor;
import org.pytorch.executorch.extension.llm.LlmCallback;
import org.pytorch.executorch.extension.llm.LlmModule;

/** Runs a network and asks a language model, with the files of et_assets. */
public final class ChatActivity extends Activity {
  private static final String QUESTION = "What is the capital of France?";
  private static final int MAX_TOKENS = 128;

  private TextView view;

  @Override
  protected void onCreate(Bundle state) {
    super.onCreate(state);
    view = new TextView(this);
    ScrollView scroll = new ScrollView(this);
    scroll.addView(view);
    setContentView(scroll);
    new Thread(
            new Runnable() {
              @Override
              public void run() {
                try {
                  AppAssets files = new AppAssets(ChatActivity.this);
                  show("Largest score: class " + largestScore(files) + "\n\n" + QUESTION + "\n");
                  ask(files);
                } catch (IOException | RuntimeException error) {
                  show("\n" + error);
                }
              }
            })
        .start();
  }

  /** A program that contains its weights, in upstream's Module. */
  private static int largestScore(AppAssets files) {
    Module module = Module.load(files.file("programs/net_xnnpack.pte").getPath());
    Tensor input = Tensor.fromBlob(new float[64], new long[] {1, 64});
    float[] scores = module.forward(EValue.from(input))[0].toTensor().getDataAsFloatArray();
    module.destroy();
    int best = 0;
    for (int i = 1; i < scores.length; i++) {
      best = scores[i] > scores[best] ? i : best;
    }
    return best;
  }

  /** A language model and the .ptd file with its weights, in upstream's LlmModule. */
  private void ask(AppAssets files) {
    LlmModule model =
        new LlmModule(
            files.file("programs/smollm2_xnnpack.pte").getPath(),
            files.file("assets/smollm2_tokenizer/tokenizer.json").getPath(),
            0.0f,
            files.file("data/smollm2_xnnpack_foundation.ptd").getPath());
    model.generate(
        prompt(QUESTION),
        MAX_TOKENS,
        new LlmCallback() {
          @Override
          public void onResult(String token) {
            show(token);
          }

          @Override
          public void onStats(String stats) {}
        },
        false);
    model.resetNative();
  }

  /** SmolLM2's chat template for one question. */
  private static String prompt(String question) {
    return "<|im_start|>user\n" + question + "<|im_end|>\n<|im_start|>assistant\n";
  }

  private void show(final String text) {
    runOnUiThread(
        new Runnable() {
          @Override
          public void run() {
            view.append(text);
          }
        });
  }
}
