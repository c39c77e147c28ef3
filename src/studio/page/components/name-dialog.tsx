import { useState } from "preact/hooks";
import { Button, Dialog, Form } from "./basics.js";
import { TextField } from "./inputs.js";

interface Props {
  /** What is done with the name, which the button says. */
  readonly verb: string;
  readonly from: string;
  /** The name that is offered. */
  readonly start: string;
  /** Why a name cannot be taken. */
  readonly problemOf: (name: string) => string | undefined;
  readonly onDone: (name: string) => void;
  readonly onClose: () => void;
}

/** Asks for another name of something. */
export function NameDialog({ verb, from, start, problemOf, onDone, onClose }: Props) {
  const [typed, setTyped] = useState(start);
  const name = typed.trim();
  const problem = problemOf(name);
  const isReady = problem === undefined && name !== from;
  const done = () => {
    if (!isReady) return;
    onClose();
    onDone(name);
  };
  return (
    <Dialog
      title={`${verb} ${from}`}
      onClose={onClose}
      footer={<Button text={verb} class="primary" disabled={!isReady} onClick={done} />}
    >
      <Form onSubmit={() => done()}>
        <TextField {...{ label: "Name", value: typed, onChange: setTyped, error: problem }} />
      </Form>
    </Dialog>
  );
}
