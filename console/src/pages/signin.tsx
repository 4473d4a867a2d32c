// Signing in: the key goes to the server once and comes back as a cookie that no script reads.
import { useSignal } from "@preact/signals";
import { signIn } from "../api";
import { words } from "../ui";

export function SignIn() {
  const wrong = useSignal("");
  const busy = useSignal(false);
  const submit = async (form: HTMLFormElement) => {
    const field = form.elements.namedItem("token") as HTMLInputElement;
    const token = field.value.trim();
    if (!token) return;
    busy.value = true;
    wrong.value = "";
    try {
      await signIn(token);
    } catch (error) {
      wrong.value = words(error);
    } finally {
      field.value = "";
      busy.value = false;
    }
  };
  return (
    <main class="signin" id="main">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void submit(event.currentTarget);
        }}
      >
        <h1>Runwright</h1>
        <label for="token">API key or token</label>
        <input
          id="token"
          name="token"
          type="password"
          autocomplete="off"
          spellcheck={false}
          autoFocus
          aria-describedby="token-hint"
        />
        {wrong.value && (
          <p class="wrong" role="alert">
            {wrong.value}
          </p>
        )}
        <button type="submit" class="button main" disabled={busy.value}>
          Sign in
        </button>
        <p class="hint" id="token-hint">
          Make a key with <code>runwright keys create --tenant NAME</code>. It is kept in a cookie
          that pages cannot read, for twelve hours.
        </p>
      </form>
    </main>
  );
}
