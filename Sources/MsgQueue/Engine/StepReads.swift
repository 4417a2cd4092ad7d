/// The steps of the scheduler that read the store for it, and expiries. Under the engine's lock.
struct StepReads {
    private let context: EngineContext
    private let store: Store
    private let writes: PendingWrites
    private let promptCount: PromptCount

    init(_ context: EngineContext, _ writes: PendingWrites) {
        (self.context, store, self.writes) = (context, context.store, writes)
        promptCount = PromptCount(context)
    }

    func perform(_ step: Step, _ now: Moment) throws(QueueError) {
        switch step {
        case .schedule: context.core.scheduler.scheduleMore(now)
        case .scan(let after, let limit):
            let rows = try store.queue.queued(after: after, limit: limit)
            context.core.scheduler.scanned(rows, complete: rows.count < limit, now)
        case .survey(let after, let limit):
            let found = try store.queue.conversations(after: after, limit: limit)
            context.core.scheduler.surveyed(found.names, through: found.last, complete: found.isComplete, now)
        case .findPriorities(let limit):
            context.core.scheduler.foundPriorities(try store.queue.conversationsWithPriorities(limit: limit), now)
        case .findUnscheduled(let after, let limit):
            let rows = try store.queue.unscheduled(after: after, limit: limit)
            context.core.scheduler.foundUnscheduled(rows, complete: rows.count < limit, now)
        case .findScheduled(let after, let through, let limit):
            let (names, next) = try store.queue.scheduled(after: after, through: through, limit: limit)
            context.core.scheduler.foundScheduled(names, through: through, next: next, now)
        case .load(let conversation, let after, let limit):
            let heads = try store.queue.queued(in: conversation, after: after, limit: limit)
            context.core.scheduler.loaded(conversation, heads, complete: heads.count < limit, now)
        case .expire(let conversation, let sequence):
            try writes.withRow(sequence, conversation, now) { context.core.expired($0, sequence, conversation, now) }
        case .seek(let after, let limit):
            let rows = try store.queue.queued(after: after, limit: limit)
            context.core.scheduler.sought(rows, complete: rows.count < limit, now)
        case .countPrompt: if let effects = try promptCount.step(now) { writes.perform(effects) }
        case .prepareCount: if try promptCount.prepare(now) { context.core.scheduler.prompt.prepared() }
        default: break
        }
    }
}
