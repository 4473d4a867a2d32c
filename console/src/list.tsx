// A list of which only the visible rows exist.
import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";

/** Browsers stop at about this height. */
const MAX_HEIGHT = 15_000_000;

export function VirtualList(props: {
  count: number;
  row: number;
  label: string;
  render: (at: number) => JSX.Element;
  /** The row to bring into view. */
  focus?: number | undefined;
  /** Keeps the end in view while rows are added. */
  stick?: boolean;
}) {
  const box = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);
  const top = useSignal(0);
  const height = useSignal(600);
  const total = Math.min(props.count * props.row, MAX_HEIGHT);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const observer = new ResizeObserver(() => (height.value = element.clientHeight));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    const element = box.current;
    if (element && props.focus !== undefined && props.focus >= 0) {
      element.scrollTop = Math.max(0, props.focus * props.row - element.clientHeight / 2);
      top.value = element.scrollTop;
    }
  }, [props.focus]);
  useEffect(() => {
    const element = box.current;
    // A reader who has scrolled up stays there.
    if (element && props.stick && atEnd.current) element.scrollTop = element.scrollHeight;
  }, [props.count, props.stick]);
  const first = Math.max(0, Math.floor(top.value / props.row) - 8);
  const last = Math.min(props.count, Math.ceil((top.value + height.value) / props.row) + 8);
  const rows: JSX.Element[] = [];
  for (let at = first; at < last; at++) {
    rows.push(
      <div
        key={at}
        class="virtual-row"
        role="listitem"
        aria-setsize={props.count}
        aria-posinset={at + 1}
        style={{ top: `${at * props.row}px`, height: `${props.row}px` }}
      >
        {props.render(at)}
      </div>,
    );
  }
  return (
    <div
      ref={box}
      class="virtual"
      tabIndex={0}
      role="region"
      aria-label={props.label}
      onScroll={({ currentTarget: list }) => {
        top.value = list.scrollTop;
        atEnd.current = list.scrollTop + list.clientHeight >= list.scrollHeight - 2 * props.row;
      }}
    >
      <div role="list" style={{ height: `${total}px`, position: "relative" }}>
        {rows}
      </div>
    </div>
  );
}
