import Glibc

/// The calls that change messages or the queue's state.
extension Engine {
    // MARK: Inserting

    /// Stores the drafts in this order, all or none.
    package func enqueue(_ drafts: DraftBatch) throws(QueueError) -> StoredBatch {
        try context.checkProcess()
        try drafts.prepare(context.options, wall: context.ports.wall())
        return try insertion.enqueue(drafts, runSteps: runStepsOfEnqueue)
    }

    /// Stores the drafts of several calls, in the order of the calls: of each call all or none.
    func enqueue(_ calls: [DraftBatch]) -> [Result<StoredBatch, QueueError>] { insertion.enqueue(calls, runSteps: runStepsOfEnqueue) }

    /// Stores messages that are like `draft` except for their bodies, which follow one another in `bodies` and have these sizes. All or none.
    package func enqueue(
        _ bodies: UnsafeRawBufferPointer, sizes: UnsafeBufferPointer<Int>, like draft: BorrowedDraft
    ) throws(QueueError) -> StoredBatch {
        try context.checkProcess()
        let drafts = DraftBatch(bodies, sizes: sizes, like: draft)
        try drafts.prepare(bodies, like: draft, context.options, wall: context.ports.wall())
        return try insertion.enqueue(drafts, runSteps: runStepsOfEnqueue)
    }

    private func runStepsOfEnqueue() {
        driver.runDueSteps()
        catchUp()
    }

    /// Stores a received message in the history. Repeating the call with the same id changes nothing.
    package func record(_ given: BorrowedDraft, sender: String) throws(QueueError) -> String {
        var draft = given
        draft.sender = sender
        return try HistoryCalls(self).record(draft)
    }

    /// Gives a conversation with messages a title; "" removes it.
    package func setTitle(_ title: String, of conversation: String) throws(QueueError) {
        try DraftRule.check(conversation: conversation)
        try DraftRule.check(title: title)
        try changing { () throws(QueueError) in try changes.setTitle(title, of: Name(conversation)) }
    }

    // MARK: One message

    /// Changes a received message.
    package func update(_ id: String, _ change: MessageChange) throws(QueueError) {
        try DraftRule.check(id: id)
        try ChangeRule.check(change, context.options)
        try changing { () throws(QueueError) in try changes.update(id, change) }
    }

    /// Changes a queued or failed message. `ifEdited`: when it was edited last, otherwise nothing changes; 0: never.
    package func edit(_ id: String, _ change: MessageChange, ifEdited: Int64 = ChangeRule.anyEdit) throws(QueueError) {
        try DraftRule.check(id: id)
        try ChangeRule.check(change, context.options)
        try ChangeRule.check(ifEdited: ifEdited)
        try changing { () throws(QueueError) in try changes.edit(id, change, ifEdited: ifEdited) }
    }

    package func delete(_ id: String) throws(QueueError) {
        try DraftRule.check(id: id)
        try changing { () throws(QueueError) in try changes.delete(id) }
    }

    package func retry(_ id: String) throws(QueueError) {
        try DraftRule.check(id: id)
        try changing { () throws(QueueError) in try changes.retry(id) }
    }

    package func sendNow(_ id: String) throws(QueueError) {
        try DraftRule.check(id: id)
        try changing { () throws(QueueError) in try changes.sendNow(id) }
    }

    package func mark(_ id: String, as receipt: MessageStatus) throws(QueueError) {
        try DraftRule.check(id: id)
        try changing { () throws(QueueError) in try receipts.mark(id, as: receipt) }
    }

    /// Ends an attempt that the transport left pending.
    package func complete(_ token: UInt64, _ outcome: Outcome) throws(QueueError) {
        if let error = try complete([(token, outcome)]).first ?? nil { throw error }
    }

    /// Ends attempts that the transport left pending, in this order. Returns the error of each; nil: its outcome counts.
    package func complete(_ answers: [(token: UInt64, outcome: Outcome)]) throws(QueueError) -> [QueueError?] {
        for (_, outcome) in answers where outcome.verdict == .pending { throw QueueError(.invalid, "verdict must not be pending") }
        var errors: [QueueError?] = []
        errors.reserveCapacity(answers.count)
        while errors.count < answers.count {
            try completing {
                let end = min(errors.count + outcomes.perCommit, answers.count)
                errors += driver.complete(answers[errors.count..<end])
            }
        }
        return errors
    }

    private func completing(_ body: () -> Void) throws(QueueError) {
        try context.checkProcess()
        context.lock.lock()
        defer { context.lock.unlock() }
        catchUp()
        // The close waits for outcomes, so they are accepted while it does.
        guard context.phase != .closed else { throw context.closedError }
        body()
        driver.runDueSteps()
    }

    // MARK: Many messages

    /// Deletes the unsent messages of one conversation or of all that were stored when the call began, in steps. A message in flight is
    /// deleted when its attempt ends, unless the attempt succeeds.
    package func clear(_ conversation: String?) throws(QueueError) {
        if let conversation { try DraftRule.check(conversation: conversation) }
        _ = try remove(.unsent(conversation.map { Name($0) }))
    }

    /// Deletes every message of a conversation that was stored when the call began, in steps. Returns how many. Throws `busy`, and changes
    /// nothing, while one of them is being sent.
    package func deleteConversation(_ conversation: String) throws(QueueError) -> Int64 {
        try DraftRule.check(conversation: conversation)
        return try remove(.conversation(Name(conversation)))
    }

    /// Deletes the failed messages that a filter selects, in steps. Returns how many.
    package func clearFailed(_ filter: Filter) throws(QueueError) -> Int64 {
        try FilterRule.check(filter)
        return try remove(.failed(filter))
    }

    package func clearFailed(_ conversation: String?) throws(QueueError) -> Int64 { try clearFailed(.failed(conversation)) }

    private func remove(_ target: Removals.Removal.Target) throws(QueueError) -> Int64 {
        var removal = Removals.Removal(target)
        do throws(QueueError) {
            try inSteps { () throws(QueueError) in try removals.step(&removal) }
        } catch {
            // A queue that was closed meanwhile has nothing to end.
            if removal.hasBegun { _ = try? changing { () throws(QueueError) in removals.end(removal, isComplete: false) } }
            throw error
        }
        return removal.count
    }

    /// Puts every failed message that a filter selects back to `queued` in its place and sends them, in every mode. Returns how many. While
    /// offline nothing changes in the modes ask and manual.
    package func retryAll(_ filter: Filter) throws(QueueError) -> Int64 {
        try FilterRule.check(filter)
        var search = FailedMessages.Search(filter)
        try inSteps { () throws(QueueError) in try changes.putBack(&search) }
        return search.count
    }

    /// Runs the steps of a call up to one that returns false. A log that they make long is checkpointed in a turn of its own.
    private func inSteps(_ step: () throws(QueueError) -> Bool) throws(QueueError) {
        while try changing(step) {
            // Let threads that wait for the lock run first.
            usleep(100)
            if try changing({ () throws(QueueError) in transactions.checkpointBetweenSteps() }) { usleep(100) }
        }
    }

    package func retryAll(_ conversation: String?) throws(QueueError) -> Int64 { try retryAll(.failed(conversation)) }

    // MARK: Pauses

    /// Pauses one conversation or (nil) the whole queue until `resume`. Not kept over a restart.
    package func pause(_ conversation: String?) throws(QueueError) {
        if let conversation { try DraftRule.check(conversation: conversation) }
        try changing { () throws(QueueError) in
            guard context.core.scheduler.pause(conversation.map { Name($0) }) else { return }
            events.emit(.paused(conversation: conversation, isPaused: true, kind: .none))
        }
    }

    package func resume(_ conversation: String?) throws(QueueError) {
        if let conversation { try DraftRule.check(conversation: conversation) }
        try changing { () throws(QueueError) in
            guard context.core.resume(conversation.map { Name($0) }, context.ports.moment) else { return }
            events.emit(.paused(conversation: conversation, isPaused: false, kind: .none))
        }
    }

    /// Answers an open prompt with no.
    package func withdrawPrompt() throws(QueueError) {
        try changing { () throws(QueueError) in context.core.scheduler.prompt.dismiss(context.ports.moment) }
    }

    // MARK: Network and lifecycle

    package func setLifecycle(isInBackground: Bool) throws(QueueError) {
        try input { () throws(QueueError) in
            context.core.scheduler.lifecycleChanged(isInBackground: isInBackground, context.ports.moment)
        }
    }

    package func setNetwork(_ state: Network) throws(QueueError) { try input { () throws(QueueError) in try network.set(state) } }

    /// Takes connectivity from the kernel from now on, beginning with its present state. Repeating the call changes nothing.
    package func startMonitor() throws(QueueError) {
        guard context.ports.simulated == nil else {
            throw QueueError(.conflict, "the queue has a simulated clock, so it has no network monitor: report connectivity")
        }
        guard try input({ () throws(QueueError) in network.monitor == nil }) else { return }
        let monitor = try NetworkMonitor()
        let state = try monitor.query()
        try input { () throws(QueueError) in
            guard network.monitor == nil else { return }
            try network.start(monitor, state)
            // The thread that waits for the alarm must include the monitor's descriptor in its wait.
            timer.wake()
        }
    }

    /// Stops the monitor. The last known state stays until the host sets another.
    package func stopMonitor() throws(QueueError) {
        try input { () throws(QueueError) in
            network.stop()
            timer.wake()
        }
    }
}
