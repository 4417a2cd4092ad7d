import Glibc

/// The feed of changes. Each function of the store that changes the status of a message notes it, inside the caller's transaction.
extension Store {
    /// nil: the changes of messages are not kept.
    var feed: ChangeFeed? { insertion.feed }

    /// Opens the feed, as the last step of the opening. With `maintenance`, it goes on as the program that owns the store has begun it.
    func openFeed(_ options: Options) throws(QueueError) {
        guard !isReadOnly else { return insertion.feed = try ChangeFeed.reading(database) }
        let stored = try ChangeTable(database).head()?.count ?? 0
        let keep = options.keepChanges == 0 && options.maintenance ? stored : options.keepChanges
        guard keep > 0 else { return endsFeed = stored > 0 }
        space.keepsChanges = true
        guard try ChangeFeed.needsTransaction(database, keep: keep) else {
            return insertion.feed = try ChangeFeed.writing(database, keep: keep, limitFileBytes: options.limitFileBytes)
        }
        try begin()
        let opened = try ChangeFeed.writing(database, keep: keep, limitFileBytes: options.limitFileBytes)
        try commit(durable: true)
        insertion.feed = opened
    }

    /// Writes the changes that the transaction has noted.
    func writeFeed() throws(QueueError) {
        if endsFeed, database.hasChanges { try ChangeFeed.end(in: database) }
        try insertion.feed?.write(usesReserve: space.usesReserve) { () throws(QueueError) in try space.use(adding: 0) }
    }

    /// Makes durable what an earlier process has written to a store that is only read: after a crash, the end of the log may be in memory only.
    func flushAsReader() throws(QueueError) {
        guard isReadOnly, let lock, !isFlushedByReader else { return }
        try Posix.sync(lock.descriptor, path)
        let log = StorePath.log(of: path)
        if try Posix.status(log) != nil {
            let descriptor = try Posix.open(log, O_RDONLY)
            defer { Glibc.close(descriptor) }
            try Posix.sync(descriptor, log)
        }
        isFlushedByReader = true
    }
}
