/// The rules for the filter of a page.
package enum FilterRule {
    /// Throws if the filter names an invalid conversation, limit, place or set of statuses.
    package static func check(_ filter: Filter) throws(QueueError) {
        if let conversation = filter.conversation { try DraftRule.check(conversation: conversation) }
        guard (1...1000).contains(filter.limit) else { throw QueueError(.invalid, "limit must be 1 to 1000, got \(filter.limit)") }
        guard filter.after >= 0 else { throw QueueError(.invalid, "after must not be negative, got \(filter.after)") }
        guard !filter.statuses.isEmpty, StatusSet.all.isSuperset(of: filter.statuses) else {
            throw QueueError(.invalid, "statuses must contain at least one status and no unknown one, got \(filter.statuses.rawValue)")
        }
    }
}
