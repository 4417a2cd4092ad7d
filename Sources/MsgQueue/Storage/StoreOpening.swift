import Glibc

/// A store that was locked, read and accepted, and its database.
struct StoreOpening {
    let lock: StoreLock
    let survey: StoreSurvey
    let database: Database
    let boot = SystemBoot.id()
    /// The counts of the folded rows, which the view has added up; nil: it has not.
    private(set) var folded: Counts?
    private let created: CreatedFiles

    /// Opens the store at a path, or creates it. An existing store is not changed on disk until it has been accepted.
    init(_ given: String, _ options: Options, _ layout: Layout) throws(QueueError) {
        let path = try StorePath.resolve(given)
        var image: [UInt8]?
        lock = try Self.acquireLock(path, options, &image)
        var created = CreatedFiles(image: image, isLogNew: false)
        do throws(QueueError) {
            let view = try StoreView(path: path, database: lock.descriptor)
            let reading = try Self.reading(view, layout)
            do throws(QueueError) {
                survey = try StoreSurvey.take(view, reading, isNew: image != nil, currentBoot: boot, layout)
                if let loss = survey.loss, options.refuseLostTail { throw QueueError(.corrupt, loss.text) }
                let isChanged = survey.wasOpen || survey.logFrames > 0 || survey.state == nil || survey.needsIndexes
                if !options.readOnly, isChanged || survey.layout < layout.version {
                    folded = try Self.dryRun(lock, reading, survey, boot, layout)
                }
                if let unread = view.readError { throw unread }
            } catch {
                reading.close()
                // A failed read is reported as such: errors that follow from it may look like damage.
                throw view.readError ?? error
            }
            if options.readOnly {
                database = reading
            } else {
                reading.close()
                created = CreatedFiles(image: image, isLogNew: try !StorePath.hasLogOrRecord(lock.path))
                database = try Self.connect(lock, survey, limit: options.limitFileBytes)
            }
            self.created = created
        } catch {
            created.remove(lock)
            lock.release()
            throw Self.asOpening(error)
        }
    }

    /// Removes the files that the opening has created. The store was not changed.
    func removeCreatedFiles() { created.remove(lock) }

    /// Returns the error of an opening. `unknown` concerns changes of the caller, and opening makes none.
    static func asOpening(_ error: QueueError) -> QueueError {
        error.code == .unknown ? QueueError(.storage, error.detail, error.cause) : error
    }

    /// Opens the database in a view, with all protections. Detects a damaged schema.
    private static func reading(_ view: StoreView, _ layout: Layout) throws(QueueError) -> Database {
        let raw = try Posix.read(view.database, at: 0, count: 100, view.path)
        _ = try StoreHeader.check(with: try view.header(), raw: raw, view.path, layout)
        do throws(QueueError) { return try Database(view: view, lengthLimit: Store.lengthLimit) } catch {
            throw view.readError ?? (error.code == .corrupt ? StoreSurvey.asDamage(error, of: view.path) : error)
        }
    }

    /// Performs the changes of the opening in a view that is then discarded. If one fails, the store is refused. Returns the counts of the
    /// folded rows if nothing was rebuilt.
    private static func dryRun(
        _ lock: StoreLock, _ view: Database, _ survey: StoreSurvey, _ boot: String, _ layout: Layout
    ) throws(QueueError) -> Counts? {
        let store = Store(over: view, lock, boot)
        do throws(QueueError) {
            try store.start(survey, layout)
            var folded = survey.state == nil || survey.needsIndexes ? nil : store.counts.foldedSum
            _ = try store.queue.firstExpiry()
            _ = try store.queue.conversationsWithFailures()
            _ = try store.queue.hasPriorities()
            _ = try store.queue.queued(after: 0, limit: 1)
            do throws(QueueError) { try dryRunRecovery(store) } catch {
                guard error.isIndex else { throw error }
                store.rollback()
                guard store.rebuildIndexes() else { throw error }
                try dryRunRecovery(store)
                folded = nil
            }
            return folded
        } catch {
            store.rollback()
            throw error.code == .internal ? QueueError(.corrupt, "\(lock.path) is damaged: \(error.detail)") : error
        }
    }

    /// Performs the writes that end interrupted attempts, and rolls them back.
    private static func dryRunRecovery(_ store: Store) throws(QueueError) {
        try store.begin()
        for attempt in try store.attempts.interrupted() {
            do throws(QueueError) {
                guard let row = try store.messages.row(at: attempt.sequence, .none), StatusRule.allows(row.progress.status, .sending) else {
                    continue
                }
                let number = row.progress.attempts &+ 1
                try store.outcomes.end(
                    row,
                    OutcomeRule.recover(
                        number: number, startedAt: max(attempt.startedAt, 0), of: row.progress, holdInterrupted: false, maxRetries: 1000))
            } catch {
                guard error.code == .corrupt, !error.isIndex else { throw error }
            }
        }
        store.rollback()
    }

    /// `image`: is set to the bytes of the store if it is new.
    private static func acquireLock(_ path: String, _ options: Options, _ image: inout [UInt8]?) throws(QueueError) -> StoreLock {
        let lock: StoreLock
        if options.readOnly {
            lock = try StoreLock.acquire(path, try StorePath.inspectForReading(path), shared: true, wait: options.wait)
        } else {
            lock = try acquireExclusiveLock(path, options, &image)
        }
        do throws(QueueError) { try StorePath.inspectSideFiles(of: path) } catch {
            lock.release()
            throw error
        }
        return lock
    }

    /// Makes the store if there is none. A process whose opening fails removes the store that it has made: then it is made again.
    private static func acquireExclusiveLock(
        _ path: String, _ options: Options, _ image: inout [UInt8]?
    ) throws(QueueError) -> StoreLock {
        for _ in 1..<mostAttempts {
            do throws(QueueError) { return try makeAndLock(path, options, &image) } catch {
                guard error.cause == .replaced else { throw error }
            }
        }
        return try makeAndLock(path, options, &image)
    }

    private static let mostAttempts = 100

    /// Returns the bytes of a store that was made; nil: there is one.
    private static func make(_ path: String, _ options: Options) throws(QueueError) -> [UInt8]? {
        guard try StorePath.inspect(path) == nil else { return nil }
        guard !options.maintenance else { throw QueueError(.invalid, "\(path) does not exist") }
        return try StoreCreation.create(path)
    }

    private static func makeAndLock(_ path: String, _ options: Options, _ image: inout [UInt8]?) throws(QueueError) -> StoreLock {
        image = try make(path, options)
        guard let file = try StorePath.inspect(path) else {
            throw QueueError(.storage, "\(path) was removed while it was opened", .replaced)
        }
        return try StoreLock.acquire(path, file, shared: false, wait: options.wait)
    }

    /// Opens the database of an accepted store. From here on files are written.
    private static func connect(_ lock: StoreLock, _ survey: StoreSurvey, limit: Int64) throws(QueueError) -> Database {
        if !survey.isHeaderReady, survey.logFrames == 0 {
            try Posix.write(lock.descriptor, at: StoreCreation.walMode.offset, StoreCreation.walMode.bytes, lock.path)
            try Posix.sync(lock.descriptor, lock.path)
        }
        if survey.hasLog {
            do throws(QueueError) { try LogRewrite.run(lock.path, size: survey.logSize) } catch {
                guard error.isFull else { throw error }
                // Truncating the file to its size releases the disk reserve.
                let size = try Posix.status(lock.descriptor, lock.path).st_size
                guard ftruncate(lock.descriptor, size) == 0 else { throw error }
                try LogRewrite.run(lock.path, size: survey.logSize)
            }
        }
        let database = try Database(lock: lock, isLogNew: !survey.hasLog, lengthLimit: Store.lengthLimit)
        do throws(QueueError) { try database.log?.limit(to: limit) } catch {
            database.close()
            throw error
        }
        database.log?.adopt(frames: survey.logFrames)
        return database
    }
}
