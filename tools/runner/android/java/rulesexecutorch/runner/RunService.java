package rulesexecutorch.runner;

import android.app.Service;
import android.content.Intent;
import android.os.Binder;
import android.os.IBinder;
import android.os.Parcel;
import android.os.ParcelFileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;

/** Runs the runner in a separate process, so that its end does not end the Activity. */
public final class RunService extends Service {
  static final int RUN = IBinder.FIRST_CALL_TRANSACTION;

  @Override
  public IBinder onBind(Intent intent) {
    return new Binder() {
      @Override
      protected boolean onTransact(int code, Parcel data, Parcel reply, int flags) {
        if (code != RUN) {
          return false;
        }
        String[] arguments = data.createStringArray();
        ParcelFileDescriptor input = ParcelFileDescriptor.CREATOR.createFromParcel(data);
        start(arguments, input, ParcelFileDescriptor.CREATOR.createFromParcel(data));
        return true;
      }
    };
  }

  private static void start(
      final String[] arguments, final ParcelFileDescriptor input, final ParcelFileDescriptor output) {
    Runnable runner =
        new Runnable() {
          @Override
          public void run() {
            try {
              NativeRunner.run(arguments, input.getFd(), output.getFd());
            } catch (LinkageError error) {
              report(output, "error: the native library cannot be loaded: " + error.getMessage());
            } catch (RuntimeException error) {
              report(output, "error: the runner cannot be started: " + error);
            }
            System.exit(1);
          }
        };
    // The stack size of a main thread in C++.
    new Thread(null, runner, "runner", 8 << 20).start();
  }

  private static void report(ParcelFileDescriptor output, String line) {
    try (PrintStream stream =
        new PrintStream(new FileOutputStream(output.getFileDescriptor()), false, "UTF-8")) {
      stream.println(line);
    } catch (IOException error) {
      // Nobody could read a report.
    }
  }
}
