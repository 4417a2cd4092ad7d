/// The feed of changes. Only what is durable is read, so this may flush; a feed that is damaged begins again.
extension QueueReader {
    /// Returns changes after a token; nil: from the oldest that is kept. All of them survive power loss. Throws `invalid` (the store keeps no
    /// changes), `conflict` (not all changes after the token are there).
    func changes(after token: ChangeToken?, limit: Int, _ transactions: Transactions) throws(QueueError) -> ChangePage {
        guard let feed = store.feed else {
            throw QueueError(.invalid, options.readOnly ? "the store keeps no changes" : "the option keep changes is 0")
        }
        if store.isInTransaction { writes.commit() }
        try store.flushAsReader()
        if store.log.needsFlush, feed.hasChanges(after: token) { try transactions.flush() }
        do throws(QueueError) { return try feed.page(after: token, limit: limit) } catch {
            guard store.withoutReadError(error).code == .corrupt, !options.readOnly else { throw error }
            // Of the changes that cannot be read nobody can say what they were.
            try transactions.run(durable: true) { () throws(QueueError) in try feed.clear() }
            report(QueueError(.corrupt, "\(error.detail), and begins again"))
            return try feed.page(after: token, limit: limit)
        }
    }
}
