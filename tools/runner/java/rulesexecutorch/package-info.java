/**
 * Runs ExecuTorch programs of these rules, and chats with language models: the C interface executorch_app.h for Java.
 *
 * <pre>{@code
 * try (Programs programs = Programs.open(new File("chat_app"));
 *     Program program = programs.load("llama")) {
 *   List<Tensor> outputs = program.run(Tensor.of(new long[] {1, 2}, 1, 2), Tensor.of(new long[] {0}, 1));
 *   try (Chat chat = program.chat()) {
 *     System.out.println(chat.say("Hello!").text());
 *   }
 * }
 * }</pre>
 *
 * <p>Threads: all methods may be called from any thread. Programs run at the same time; calls of one program and its chat
 * wait for each other, except {@link Chat#stop}. Many calls take long: do not call them in a UI thread.
 *
 * <p>Objects are closed with what they opened, in any order. A closed one throws a {@link ProgramException}.
 *
 * <p>The native library is libexecutorch_app.so, which an AAR contains. Elsewhere the system property
 * rulesexecutorch.library is its path; by default it is looked for in java.library.path.
 */
package rulesexecutorch;
