/// All sending decisions as a pure value: the schedule, the attempts in flight, late outcomes and the statistics.
///
/// Each input is a function that takes the current time and returns its effects as data. The engine performs the effects: it writes the
/// changes, commits, and then performs the notices. The simulation drives the same type.
package struct Core {
    package let options: Options
    package let opening: Opening
    let policy: RetryPolicy
    package var scheduler: Scheduler
    package var statistics: StatisticsKeeper
    /// The messages in flight, as they were when their attempts began; keyed by token.
    package internal(set) var rowsInFlight: [UInt64: Row] = [:]
    /// The progress of failed messages that were retried by hand, before their attempts began; keyed by token.
    var retriedFrom: [UInt64: Progress] = [:]
    /// Attempts that timed out, kept so that a late success can still be accepted. Bounded; the oldest are dropped.
    var late = LateAttempts()
    /// The open prompt; nil: none is open.
    package internal(set) var prompt: Prompt?
    package internal(set) var nextToken: UInt64
    let firstToken: UInt64
    /// The first token of the attempts that began after the last `resume` of the whole queue.
    private var resumedAt: UInt64 = 0

    /// `firstToken` is random, so that a token of an earlier process does not match an attempt of this one.
    package init(_ options: Options, _ opening: Opening, firstToken: UInt64, openedAt: Int64) {
        self.options = options
        self.opening = opening
        self.firstToken = firstToken
        nextToken = firstToken
        policy = RetryPolicy(options)
        scheduler = Scheduler(options, opening)
        statistics = StatisticsKeeper(openedAt: openedAt)
    }

    // MARK: Resume and clear

    /// Resumes sending. Returns false if it was not paused.
    package mutating func resume(_ conversation: Name?, _ now: Moment) -> Bool {
        if conversation == nil { resumedAt = nextToken }
        return scheduler.resume(conversation, now)
    }

    /// Whether an unauthorized outcome of this attempt may pause the queue. An attempt that began before the last resume may have used the
    /// old credentials.
    func mayPause(_ flight: Flight) -> Bool { flight.token >= resumedAt }

    /// Marks a message in flight as cleared: it is deleted when its attempt ends, unless the attempt succeeds.
    package mutating func markCleared(_ token: UInt64) { rowsInFlight[token]?.progress.doomed = true }

    // MARK: The prompt

    /// Takes the messages that a yes would send now: raises a prompt for them, or changes or withdraws the one that stands. `version`: of the
    /// queue when the count began.
    package mutating func promptCounted(
        _ found: Prompt, _ version: PromptState.Version, changesAt: Int64?, work: Int64 = 0, _ now: Moment
    ) -> [Effect] {
        scheduler.prompt.counted(version, changesAt: changesAt, work: work, now)
        guard found.messages > 0 || found.failed > 0 else { return prompt == nil ? [] : promptWithdrawn() }
        guard let standing = prompt else {
            scheduler.prompt.raise(now)
            prompt = found
            return [.notice(.event(.prompt(found)))]
        }
        guard found != standing else { return [] }
        prompt = found
        return [.notice(.event(.promptChanged(found)))]
    }

    package mutating func promptWithdrawn() -> [Effect] {
        scheduler.prompt.withdraw()
        prompt = nil
        return [.notice(.event(.promptWithdrawn))]
    }
}
