/**
 * Live asks about the newest drawing, some time after it has stopped changing. Each question has a number; an answer to
 * an older one than the newest that was answered is dropped.
 */
export class Live<Q, A> {
  private asked = 0;
  private answered = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private running: AbortController | undefined;

  constructor(
    private readonly ask: (question: Q, signal: AbortSignal) => Promise<A>,
    private readonly tell: (answer: A) => void,
    private readonly failed: (err: unknown) => void,
    private readonly delay = 500,
  ) {}

  /** changed asks when nothing else changes for the delay. */
  changed(question: Q): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.send(question), this.delay);
  }

  /** now asks at once. */
  async now(question: Q): Promise<void> {
    clearTimeout(this.timer);
    await this.send(question);
  }

  /** forget takes back what was not asked or answered yet. */
  forget(): void {
    clearTimeout(this.timer);
    this.running?.abort();
  }

  stop(): void {
    clearTimeout(this.timer);
    this.running?.abort();
    this.answered = this.asked = Infinity;
  }

  private async send(question: Q): Promise<void> {
    const number = ++this.asked;
    this.running?.abort();
    const running = (this.running = new AbortController());
    try {
      const answer = await this.ask(question, running.signal);
      if (number < this.answered || running.signal.aborted) return;
      this.answered = number;
      this.tell(answer);
    } catch (err) {
      if (!running.signal.aborted && number >= this.answered) this.failed(err);
    }
  }
}
