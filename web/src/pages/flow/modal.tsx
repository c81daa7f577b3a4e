import { onMount, type JSX } from "solid-js";

/** Modal is a dialog that says what happens in it by itself. */
export function Modal(props: { title: string; class?: string; close: () => void; children: JSX.Element; footer: (close: () => void) => JSX.Element; submit?: () => void }): JSX.Element {
  let dialog: HTMLDialogElement | undefined;
  onMount(() => dialog?.showModal());
  return (
    <dialog ref={(el) => (dialog = el)} class={props.class} aria-labelledby="modal-title" onClose={() => props.close()}>
      <form onSubmit={(e) => { e.preventDefault(); props.submit?.(); }}>
        <h2 id="modal-title">{props.title}</h2>
        {props.children}
        <footer>{props.footer(() => dialog?.close())}</footer>
      </form>
    </dialog>
  );
}
