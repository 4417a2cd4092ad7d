/// Ends the attempts that a previous process did not end.
struct InterruptedAttempts {
    let store: Store
    let writes: PendingWrites
    let transactions: Transactions
    let health: StoreHealth

    private static func change(_ attempt: (sequence: Int64, number: UInt32, startedAt: Int64)) -> StoreChange {
        .recover(sequence: attempt.sequence, number: attempt.number, startedAt: attempt.startedAt)
    }

    /// Their outcome is unknown, and their messages are queued again in their places.
    func end() throws(QueueError) {
        let interrupted = try store.attempts.interrupted()
        guard !interrupted.isEmpty else { return }
        do throws(QueueError) {
            try transactions.run(durable: true) { () throws(QueueError) in
                for attempt in interrupted { try writes.write(Self.change(attempt)) }
            }
        } catch {
            // On a full disk the queue opens and can be read; nothing is sent until this is written.
            guard error.isFull else { throw error }
            for attempt in interrupted {
                let conversation = try store.messages.row(at: attempt.sequence, .outline)?.conversation
                writes.keep(Fact(attempt.sequence, conversation, isOutcome: true, [Self.change(attempt)]))
            }
            health.pause(error)
        }
    }
}
