/// The feed of changes.
extension Engine {
    /// Returns changes after a token; nil: from the oldest that is kept. All of them survive power loss. Throws `invalid` (the store keeps no
    /// changes), `conflict` (not all changes after the token are there).
    package func changes(after token: ChangeToken?, limit: Int) throws(QueueError) -> ChangePage {
        guard (1...1000).contains(limit) else { throw QueueError(.invalid, "limit must be 1 to 1000, got \(limit)") }
        return try reading { () throws(QueueError) in
            let store = context.store
            guard let feed = store.feed else {
                let reason = context.options.readOnly ? "the store keeps no changes" : "the option keep changes is 0"
                throw QueueError(.invalid, reason)
            }
            if store.isInTransaction { writes.commit() }
            try store.flushAsReader()
            if store.log.needsFlush, feed.hasChanges(after: token) { try transactions.flush() }
            do throws(QueueError) { return try feed.page(after: token, limit: limit) } catch {
                guard store.withoutReadError(error).code == .corrupt, !context.options.readOnly else { throw error }
                // Of the changes that cannot be read nobody can say what they were.
                try transactions.run(durable: true) { () throws(QueueError) in try feed.clear() }
                reader.report(QueueError(.corrupt, "\(error.detail), and begins again"))
                return try feed.page(after: token, limit: limit)
            }
        }
    }
}
