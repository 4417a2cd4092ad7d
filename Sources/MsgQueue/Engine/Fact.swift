/// Something that happened and must be written down: an attempt's outcome, an expiry. Unlike a caller's wish it cannot be refused; what the
/// store does not take is kept and written later.
struct Fact {
    let sequence: Int64
    /// The message counts as being sent until this is written.
    let isOutcome: Bool
    let write: () throws(QueueError) -> Void
    /// What the host is told when it is on disk.
    let tell: () -> Void
}

extension Engine {
    /// Writes a fact in the transaction under way, or begins one; `commitFacts` ends it.
    func record(_ fact: Fact) {
        do throws(QueueError) {
            try store.begin()
            try fact.write()
            staged.append(fact)
        } catch {
            giveUpFacts(error, and: fact)
        }
    }

    /// Commits what was recorded, and tells it. False when it has to wait.
    ///
    /// `begins`: the beginning of an attempt is in the transaction, too.
    @discardableResult
    func commitFacts(begins: Bool = false) -> Bool {
        guard !isOrphan, store.isInTransaction else { return true }
        do throws(QueueError) {
            let outcomes = staged.count(where: \.isOutcome)
            try committing(outcomes) { () throws(QueueError) in
                try store.commit(
                    durable: options.durableOutcomes && outcomes > 0 || begins && (options.durableOutcomes || options.holdUnknown))
            }
            storageIsWell()
        } catch {
            giveUpFacts(error)
            return false
        }
        let facts = staged
        staged = []
        for fact in facts { fact.tell() }
        return true
    }

    /// Rolls back; the facts are kept and written later.
    func giveUpFacts(_ error: QueueError, and fact: Fact? = nil) {
        store.rollback()
        unsaved += staged
        if let fact { unsaved.append(fact) }
        staged = []
        if error.isIndex, !isMakingRoom, mendIndexes(error) {
            isMakingRoom = true
            defer { isMakingRoom = false }
            saveUnsaved()
            if unsaved.isEmpty { return }
        }
        // With the room that is kept for it, at once.
        if error.isFull, !isMakingRoom {
            isMakingRoom = true
            defer { isMakingRoom = false }
            while store.makeRoom() {
                saveUnsaved()
                if unsaved.isEmpty { return }
            }
        }
        storagePause(error)
    }

    /// Facts that a store in trouble did not take are written as soon as it does.
    func saveUnsaved() {
        let facts = unsaved
        unsaved = []
        for fact in facts {
            // After the first that fails the others are kept unwritten, in their order.
            guard unsaved.isEmpty else {
                unsaved.append(fact)
                continue
            }
            record(fact)
        }
        commitFacts()
    }
}
