/// When a message may be sent, and when it expires.
package struct DraftTimes: Equatable {
    /// Wall times; 0: none.
    package var notBefore: Int64
    package var expiresAt: Int64
    /// Those of them that were given as durations.
    package var bootTimes = BootTimes()

    /// `life`: after this a draft without an expiry of its own expires; 0: never.
    package init(_ draft: borrowing BorrowedDraft, life: Int64, _ now: Moment) {
        notBefore = draft.delay == 0 ? draft.notBefore : now.wall.addingClamped(draft.delay)
        if draft.delay != 0 { bootTimes.start = now.mono.addingClamped(draft.delay) }
        expiresAt = draft.expiresAt
        let own = draft.expiry == 0 && expiresAt == 0 ? life : draft.expiry
        guard own > 0 else { return }
        expiresAt = max(now.wall, notBefore).addingClamped(own)
        // After an absolute start the wall clock decides when the time to live begins.
        if draft.delay != 0 || notBefore <= now.wall { bootTimes.expiry = now.mono.addingClamped(draft.delay).addingClamped(own) }
    }

    package init(_ draft: borrowing BorrowedDraft) { (notBefore, expiresAt) = (draft.notBefore, draft.expiresAt) }
}
