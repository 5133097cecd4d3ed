//! The list of all cases. A test below keeps it complete.

/// Calls a macro with every case, as `topic { case case … }` for each topic.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_conformance_case {
    ($($callback:tt)*) => {
        $($callback)*! {
            enqueue {
                a_wish_becomes_a_waiting_job a_wish_for_later_waits_for_its_time
                numbers_grow_in_the_order_of_the_batch an_empty_request_is_stored
                the_largest_batch_is_stored_whole many_callers_at_once_lose_nothing
                odd_json_comes_back_as_it_was_given a_large_payload_comes_back_whole
                names_of_every_script_stay_apart the_ends_of_every_range_can_be_stored
            }
            coalesce {
                a_second_trigger_joins_the_waiting_job
                an_earlier_trigger_makes_a_scheduled_job_due
                a_trigger_of_higher_priority_moves_the_job_ahead
                wishes_of_one_batch_join_each_other jobs_without_a_key_never_join
                keys_are_apart_per_user_and_kind a_trigger_while_running_leaves_exactly_one_more
                a_finished_job_attracts_no_triggers a_trigger_cannot_shorten_a_backoff
                many_triggers_at_once_leave_one_waiting_job
                batches_in_any_order_of_keys_do_not_deadlock appended_payloads_are_bounded
            }
            claim {
                a_claim_hands_out_a_lease every_claim_uses_an_attempt_and_a_new_number
                limits_of_lane_and_total_are_kept the_best_rank_goes_first age_overtakes_priority
                only_the_lanes_asked_for_are_claimed a_running_key_is_skipped_and_blocks_nobody
                a_claim_says_when_the_next_job_comes_due sixty_four_claimers_share_a_thousand_jobs
                claimers_at_once_never_share_a_key
            }
            lease {
                a_heartbeat_extends_the_lease progress_is_kept_until_it_is_replaced
                a_late_heartbeat_that_finds_its_lease_has_won a_heartbeat_learns_of_a_cancel
                a_batch_answers_in_order_whatever_its_neighbours
                after_a_rescue_the_old_holder_changes_nothing
                a_lease_that_never_was_changes_nothing of_many_endings_of_one_run_one_lands
                the_same_lease_twice_in_a_batch_lands_once
                an_old_lease_beside_the_new_one_stays_lost
            }
            settle {
                every_outcome_is_settled_by_the_rules
                every_outcome_of_a_later_attempt_is_settled_by_the_rules
                a_job_that_returns_folds_into_the_one_that_waits
                a_poison_job_under_steady_triggers_stops a_job_without_a_limit_is_never_given_up
                running_again_keeps_the_job handing_back_gives_the_attempt_back
                a_batch_of_mixed_outcomes_is_answered_in_order
                runs_that_fail_together_come_back_apart
                errors_are_kept_as_they_were_reported a_run_may_trigger_its_own_key
            }
            sweep {
                a_silent_holder_loses_its_job_by_the_rules a_lease_ends_when_it_says
                a_heartbeat_moves_the_end_of_the_lease a_deadline_ends_a_run_that_heartbeats
                a_job_that_kills_its_workers_stops a_rescued_job_folds_into_the_one_that_waits
                an_outside_worker_gets_one_full_lease_after_an_outage
                the_grace_is_no_longer_than_one_lease a_sweep_takes_no_more_than_it_may
                only_the_silent_ones_are_taken
            }
            by_hand {
                a_waiting_job_is_cancelled_at_once the_holder_of_a_running_job_is_told
                what_has_ended_cannot_be_cancelled a_cancelled_key_is_free_again
                the_jobs_of_others_are_not_there a_finished_job_is_tried_anew_by_the_rules
                a_waiting_job_is_retried_without_its_backoff a_running_job_is_not_retried
                a_key_that_waits_already_is_not_given_twice
                a_run_folds_into_a_job_that_was_retried_by_hand
                many_retries_at_once_requeue_one_job_of_a_key a_cancel_that_meets_a_completion
                a_cancel_that_meets_a_claim
            }
            races {
                a_late_heartbeat_and_a_sweep_never_both_win
                sweepers_at_once_add_exactly_one_attempt a_completion_and_a_sweep_never_both_win
                a_key_never_runs_twice_at_once everything_at_once_fails_nobody
            }
            read {
                one_job_is_found_in_every_state lists_are_filtered_by_state_kind_and_key
                a_state_filter_goes_by_the_time_of_the_look
                pages_follow_each_other_without_gap_or_overlap
                leases_are_listed_for_whom_they_concern depths_count_what_waits_and_runs
                a_moving_job_is_always_in_exactly_one_place
                the_database_describes_itself_and_can_be_written
            }
            prune {
                each_end_has_its_own_retention what_is_not_over_is_never_pruned
                pruning_stops_at_its_limit_and_says_so a_pruned_idempotency_key_may_be_used_again
                a_pruned_stream_goes_on_counting
            }
            idempotency {
                a_repeated_request_is_answered_as_before
                a_key_with_another_body_is_refused
                keys_are_apart_per_user_and_route
                a_request_without_jobs_is_remembered_too
                fifty_copies_at_once_make_one_job
                two_bodies_at_once_leave_one
            }
            users {
                a_user_is_made_once_per_address
                many_at_once_make_one_user
                users_are_listed_in_order
                what_may_change_is_replaced
                a_token_is_kept_as_it_was_made
                nobody_gets_no_token
                a_token_is_revoked_once
                the_latest_use_of_a_token_is_noted
            }
            effects {
                everything_is_written_and_read_back
                effects_land_with_the_outcome
                a_stale_neighbour_takes_its_effects_with_it
                a_guarded_write_needs_the_lease
                a_guarded_write_and_a_sweep_never_both_have_it
                numbers_of_a_stream_have_no_gap
                frames_are_read_from_a_place_on
                the_steps_of_each_entity_are_logged_in_order
                webhook_events_are_numbered
            }
            process {
                every_start_has_a_mark_of_its_own
                a_new_process_takes_over_only_from_the_dead
                what_a_process_that_is_gone_has_held_is_taken_before_its_time
            }
            bots {
                a_reservation_is_written_with_all_it_brings
                what_a_bot_is_asked_comes_back_as_it_was_given
                the_limit_is_exact_and_zero_means_none
                every_live_state_takes_a_slot_and_no_other
                lowering_the_limit_ends_nobody
                a_second_bot_in_the_same_meeting_is_refused
                a_refusal_writes_nothing
                a_refused_connection_may_be_used_later
            }
            bots_events {
                every_step_is_written_as_the_rules_say
                callbacks_in_any_order_end_right
                a_repeat_changes_nothing
                what_is_over_stays_as_it_is
                a_stranger_changes_nothing
                a_guarded_event_needs_the_lease
                a_session_begins_once
                times_and_reasons_are_kept
                an_end_brings_one_finish
                a_bot_that_has_heartbeats_is_known_by_it
            }
            bots_wishes {
                a_wish_to_stop_never_touches_the_meeting
                the_first_wish_to_stop_stays
                whoever_is_over_or_elsewhere_is_not_stopped
                an_address_names_whoever_is_there
                a_wish_to_stop_explains_the_end
                a_new_configuration_never_touches_the_meeting
                only_a_live_bot_takes_a_configuration
                versions_of_a_configuration_grow_by_one
                wishes_of_one_bot_do_not_meet_anothers
            }
            bots_beats {
                a_beat_is_heard_in_every_live_state
                a_beat_learns_what_is_wished
                who_is_over_is_told_and_not_changed
                a_batch_is_answered_in_order
                whoever_does_not_speak_for_the_bot_changes_nothing
                media_that_stands_still_is_no_progress
                the_applied_configuration_never_goes_back
                the_same_bot_twice_in_a_batch_is_heard_twice
                a_large_batch_is_answered_whole
            }
            bots_sweep {
                each_state_has_its_patience
                a_sign_of_life_moves_the_end_of_an_active_bot
                a_bot_whose_media_stands_still_is_given_up
                no_bot_lives_longer_than_its_lifetime
                our_own_outage_is_not_held_against_a_bot
                a_launcher_that_does_not_answer_spares_its_bots
                a_sweep_takes_no_more_than_it_may
                a_sweep_is_written_like_any_change
                what_is_over_is_never_swept
                sweepers_at_once_end_each_bot_once
            }
            bots_launch {
                a_launch_sets_the_container_and_nothing_else
                a_launch_needs_its_attempt_its_bot_and_its_lease
                the_next_attempt_takes_the_place_of_the_last
                only_a_reserved_bot_begins_another_attempt
                only_misses_in_a_row_end_a_bot
                an_exit_that_the_runtime_saw_keeps_its_code
                one_miss_is_enough_where_that_is_the_rule
                notes_about_others_change_nothing
                a_batch_of_notes_is_about_each_bot_by_itself
            }
            bots_read {
                live_bots_are_listed_in_pages
                workloads_of_live_bots_are_known
                bots_are_counted_by_state
                meetings_are_listed_in_pages
                meetings_are_filtered
                one_meeting_is_found_by_its_owner
                data_is_merged_member_by_member
                a_finished_meeting_is_anonymised_once
                a_meeting_that_goes_on_is_not_anonymised
            }
            bots_finish {
                the_work_after_a_meeting_is_done_once
                a_meeting_that_goes_on_is_not_finished
                finishing_needs_the_lease
                of_many_who_finish_at_once_one_does
                what_was_said_is_gathered
            }
            bots_foreign {
                words_of_an_existing_database_take_slots
                live_meetings_are_adopted
                an_adopted_bot_that_is_silent_is_given_up
                of_many_who_adopt_at_once_one_does
                old_words_are_understood_in_every_list
                what_was_said_is_forgotten
            }
            bots_races {
                starts_at_once_never_pass_the_limit
                a_freed_slot_is_taken_once
                a_meeting_started_twice_at_once_gets_one_bot
                a_late_heartbeat_and_a_sweep_never_both_win
                an_exit_and_a_sweep_never_both_win
                callbacks_at_once_are_one_life
                data_that_is_written_at_once_is_all_kept
                everything_at_once_fails_nobody
            }
            webhooks {
                an_endpoint_is_set_changed_and_taken_away nobody_has_no_endpoint
                an_address_that_was_there_before_is_an_endpoint
                changes_at_once_lose_no_member_of_the_data an_event_is_found_by_its_id
                an_event_is_stored_once every_try_is_logged every_state_of_a_delivery_is_kept
                logging_needs_the_lease an_endpoint_is_switched_off_and_set_anew
                an_address_that_was_there_before_is_switched_off
                a_new_address_is_not_switched_off_by_the_old_one
                deliveries_are_listed_for_whom_they_concern an_event_is_sent_again_with_its_own_id
                pruning_takes_what_is_old_and_never_what_is_pending
            }
            transcripts {
                what_is_told_is_read_at_once
                the_same_a_hundred_times_is_written_once
                only_what_has_changed_is_told_on
                what_nobody_sees_is_no_change
                an_older_telling_changes_nothing
                a_redelivery_changes_nothing
                a_start_that_moves_a_little_is_the_same_segment
                segments_with_one_start_stay_apart
                a_message_sees_what_those_before_it_did
                a_batch_of_several_meetings_is_answered_in_order
                who_is_not_there_is_not_heard
                a_meeting_is_heard_in_every_state
                the_largest_message_is_taken_whole
                every_text_comes_back_as_it_was_told
                nothing_said_is_nothing_written
            }
            transcripts_sessions {
                a_late_start_fills_back_what_was_said
                the_first_start_stands
                a_newer_token_moves_the_start
                the_start_that_a_bot_brings_is_a_guess
                a_bot_that_begins_fills_back_what_was_said
                a_bot_that_begins_moves_no_start
                a_hint_is_taken_only_where_nothing_is_known
                a_hint_fills_back_what_was_said
                segments_without_a_session_have_no_times
                sessions_with_the_same_times_stay_apart
                sessions_are_a_meetings_own
                a_start_without_segments_is_no_frame
                late_segments_are_taken_after_the_end
                a_platform_before_the_name_is_not_part_of_it
            }
            transcripts_speakers {
                segments_are_mapped_by_what_was_heard
                what_is_heard_later_counts_when_it_is_told_again
                events_without_a_meeting_are_heard_where_their_session_is
                events_of_others_are_not_used
                what_was_heard_before_is_left_out
                what_is_over_the_limit_of_a_session_is_left_out
                only_the_latest_events_before_the_end_are_looked_at
                a_speaker_is_renamed_in_all_that_was_and_will_be_said
                names_follow_each_other
                who_is_found_late_has_the_name_that_was_given
                a_name_brings_nothing_back
                rows_of_somebody_else_are_renamed_too
                nobody_renames_the_speakers_of_others
            }
            transcripts_settle {
                stable_segments_become_final
                what_is_settled_twice_is_there_once
                what_changes_in_between_stays_live
                an_update_of_a_final_segment_changes_its_row
                what_is_refused_is_retracted_and_remembered
                what_is_refused_stays_so_when_its_speaker_was_found
                what_was_refused_long_ago_is_forgotten
                what_is_final_is_compared_with
                settling_takes_no_more_than_it_may
                who_spoke_is_looked_for_once_more
                one_settling_may_tell_of_both
                the_sessions_are_told_once_nothing_is_left
                settling_needs_the_lease
                where_nothing_was_said_nothing_settles
            }
            transcripts_read {
                final_and_live_are_read_as_one
                the_place_is_that_of_the_last_frame
                only_what_changed_since_is_read
                nobody_reads_the_meetings_of_others
                an_address_means_the_latest_meeting
                live_meetings_are_listed_in_pages
                live_lines_are_in_the_order_of_their_keys
                rows_of_somebody_else_are_read
                odd_times_of_somebody_else_are_read
                the_ends_of_streams_are_told_in_order
                frames_that_were_not_handed_on_are_found
                a_later_frame_hides_no_earlier_one
                more_holes_than_are_remembered_are_found_again
                a_frame_that_is_gone_is_not_looked_for
                frames_are_looked_for_between_times
                a_look_changes_nothing
            }
            transcripts_search {
                words_phrases_and_beginnings_are_found
                a_hit_is_the_line_that_is_read
                nobody_finds_what_others_said
                pages_follow_each_other
                a_changed_text_is_found_by_its_new_words
                rows_of_somebody_else_are_found_once_indexed
                a_row_that_is_too_large_stops_nobody
                what_is_deleted_is_not_found
                a_search_finds_nothing_wrong_with_the_words
            }
            transcripts_shares {
                a_link_holds_until_it_expires
                links_are_listed_for_their_owner_newest_first
                a_link_is_ended_by_its_owner
                nobody_shares_the_meetings_of_others
                a_link_stays_with_its_meeting
                links_that_ended_are_pruned
            }
            transcripts_letters {
                letters_are_kept_newest_first
                a_letter_is_one_by_its_source_and_entry
                a_letter_is_deleted_once
                whatever_came_can_be_put_away
                old_letters_are_pruned
                old_events_are_pruned_and_nobody_is_forgotten
                what_is_of_use_is_never_pruned
            }
            transcripts_delete {
                what_is_deleted_is_retracted
                a_deleted_transcript_leaves_nothing
                what_is_told_after_a_deletion_is_new
                nobody_deletes_what_others_said
                an_address_deletes_the_latest
                an_anonymised_meeting_leaves_nothing
                rows_of_somebody_else_are_deleted_too
            }
            transcripts_races {
                the_newest_of_many_revisions_stays
                no_look_misses_or_doubles_a_segment
                one_of_many_deliveries_is_a_change
                each_segment_is_settled_once
                batches_in_any_order_do_not_deadlock
                a_start_and_segments_at_once_agree
                a_bot_that_begins_while_others_speak_fills_back_all
                everything_at_once_fails_nobody
            }
            presence {
                a_meeting_is_made_with_all_it_brings
                what_is_wished_comes_back_as_it_was_given
                a_room_has_one_open_meeting
                nobody_makes_no_meeting
                of_many_who_open_a_room_at_once_one_does
                meetings_are_listed_in_pages
                nobody_sees_the_meetings_of_others
                meetings_have_numbers_of_their_own
            }
            presence_looks {
                whoever_is_seen_is_written
                a_look_that_shows_nothing_new_changes_nothing_else
                nothing_but_an_answer_closes_a_session
                an_empty_answer_needs_a_second_look
                a_leave_has_the_time_of_its_event_and_stays
                a_session_that_is_over_is_known_by_its_name
                sessions_of_one_person_stay_apart
                visits_between_looks_are_kept
                five_hundred_people_are_taken_in_one_look
                a_stale_look_changes_nothing
                a_look_needs_its_lease
                a_look_at_no_meeting_is_none
                a_room_that_is_gone_ends_its_meeting
                a_look_runs_under_the_job_of_its_meeting
                sessions_are_listed_in_pages
            }
            presence_ends {
                a_meeting_ends_when_everyone_has_left
                a_meeting_that_nobody_came_to_ends
                whoever_is_on_their_way_keeps_a_meeting_open
                who_is_on_their_way_is_known_once
                nobody_ends_a_meeting_while_the_provider_is_silent
                judging_needs_its_lease
                its_owner_ends_a_meeting
                an_owner_has_the_last_word
                a_meeting_that_was_ended_by_mistake_is_healed
                a_room_that_was_taken_meanwhile_is_not_taken_back
            }
            presence_lists {
                open_meetings_are_listed_with_who_is_there
                many_open_meetings_are_listed_in_pages
                empty_meetings_are_listed
                a_room_leads_to_its_meeting
                many_rooms_lead_to_their_meetings
                meetings_are_counted
                the_latest_look_at_all_rooms_is_known
            }
            presence_inbox {
                events_are_kept_newest_first
                an_event_is_kept_once
                of_many_deliveries_at_once_one_is_new
                events_are_filtered
                whatever_came_can_be_kept
                old_events_are_pruned
                who_was_expected_is_pruned
            }
            presence_bots {
                a_room_takes_no_slot
                rooms_are_neither_adopted_nor_swept
                rooms_are_listed_among_meetings
                a_room_is_deaf_to_what_bots_are_told
                what_a_user_notes_stays_through_looks
                an_anonymised_meeting_names_nobody
            }
            presence_races {
                of_many_lookers_the_newest_stays
                a_look_and_a_sweep_never_both_have_it
                an_end_and_looks_at_once_agree
                a_room_is_opened_or_healed
                a_judgement_and_somebody_on_their_way_agree
                a_judgement_and_a_look_agree
                looks_at_many_rooms_are_all_written
                everything_at_once_fails_nobody
            }
            recordings {
                a_recording_is_kept_with_all_it_brings
                what_is_announced_comes_back_as_it_was_given
                a_repetition_is_counted_and_changes_nothing
                tracks_that_are_told_later_are_kept
                a_batch_is_answered_in_order
                a_large_batch_is_kept_whole
                whether_it_is_known_is_told_in_order
            }
            recordings_begin {
                a_recording_finds_its_meeting
                the_nearest_meeting_of_the_room_is_meant
                one_of_many_meetings_of_a_room_is_found
                of_two_as_near_the_first_is_meant
                a_meeting_that_is_far_away_is_another_one
                a_meeting_may_come_later
                a_meeting_that_was_found_stays
                beginning_needs_the_lease
                what_is_done_is_not_begun
                what_was_left_is_begun_again
                a_recording_is_processed_by_its_job
            }
            recordings_media {
                files_are_kept_by_their_tracks
                files_stay_through_all_that_happens
                whatever_a_file_is_called_comes_back
                keeping_needs_the_lease
                that_media_are_gone_is_noted
                erasing_needs_the_lease
                nobody_has_no_files
            }
            recordings_finish {
                what_was_heard_is_read_as_a_transcript
                only_what_is_new_is_read_since
                words_of_recordings_are_found
                all_that_was_said_is_read_as_one
                what_was_said_at_once_is_all_kept
                a_transcript_is_saved_once
                where_nothing_was_said_nothing_is_told
                saving_needs_the_lease
                what_is_not_there_is_not_saved
                tracks_are_saved_as_one_conversation
                speakers_are_called_by_their_names
                a_deleted_transcript_is_not_made_again
            }
            recordings_texts {
                a_long_transcript_is_saved_whole
                every_text_comes_back_as_it_was_heard
                what_has_no_place_is_cut
                a_very_long_text_is_read_in_pieces
            }
            recordings_fails {
                why_it_failed_is_kept what_has_not_begun_may_fail failing_needs_the_lease
                what_is_done_does_not_fail what_failed_waits_again
                only_what_has_failed_waits_again the_oldest_wait_again_first
                nobody_retries_the_recordings_of_others a_retry_keeps_what_is_known
            }
            recordings_consent {
                what_people_say_is_kept the_latest_word_counts a_denial_brings_one_job
                a_denial_before_the_end_is_kept a_denial_after_the_end_is_enough
                a_denial_that_was_taken_back_erases_nothing all_recordings_of_a_meeting_are_erased
                what_is_erased_is_erased_once nobody_speaks_in_the_meetings_of_others
            }
            recordings_lists {
                a_user_has_those_of_their_meetings recordings_are_listed_in_pages
                pages_stay_where_they_are how_far_the_list_was_read_is_kept recordings_are_counted
            }
            recordings_forget {
                an_anonymised_meeting_names_nobody what_is_still_to_be_found_is_forgotten
                what_is_being_processed_ends_without_words what_is_forgotten_stays_so
                what_was_erased_before_is_not_erased_again
                work_and_forgetting_at_once_leave_nothing
            }
            recordings_races {
                of_many_announcements_one_is_new batches_in_any_order_do_not_deadlock
                a_recording_is_never_without_its_job a_worker_that_comes_back_changes_nothing
                an_end_and_a_sweep_leave_one_transcript of_many_who_end_at_once_one_saves
                of_many_who_retry_at_once_one_does a_denial_and_an_end_at_once_erase
                transcripts_of_one_meeting_are_all_saved everything_at_once_fails_nobody
            }
            tasks {
                a_task_is_made_with_the_jobs_that_look_after_it
                every_step_is_written_as_the_rules_say what_is_over_stays_as_it_is
                an_end_and_the_document_are_written_together
                a_document_that_was_not_told_is_told_later a_step_needs_its_lease_and_its_version
                a_service_has_so_many_slots a_hint_makes_a_task_and_its_room_due
                tasks_are_listed_and_counted what_ended_long_ago_is_forgotten
                what_was_lost_is_set_again
            }
            tasks_races {
                of_many_ends_one_is_told a_task_is_never_without_its_round
                slots_are_never_taken_twice everything_at_once_fails_nobody
            }
            alarms {
                a_room_has_several_alarms_by_their_names
                setting_again_brings_it_forward_or_replaces_it
                an_alarm_that_is_set_while_it_fires_stays_set an_alarm_is_never_dropped
                a_room_has_so_many_alarms many_who_set_one_alarm_set_one
            }
            rooms {
                a_project_belongs_to_whoever_names_it_first updates_are_numbered_without_a_gap
                the_first_update_sets_the_alarm a_snapshot_replaces_what_it_was_made_from
                rooms_that_stay_dirty_are_found versions_are_kept_and_named
                a_room_token_holds_until_it_ends of_many_who_name_a_project_one_owns_it
                updates_and_snapshots_at_once_lose_nothing
                presence_that_is_kept_replaces_what_it_was_made_from
            }
            gates {
                a_gate_limits_what_runs_at_once what_runs_when_a_limit_is_set_is_counted_by_it
                a_gate_of_a_kind_holds_for_all_users_together
                tenants_are_served_in_turn weights_are_shares each_tenant_has_its_own_limit
                a_rate_is_exact_and_says_when_it_opens many_nodes_at_once_keep_every_limit
                a_paused_kind_is_passed_over gated_and_other_kinds_share_a_worker
                no_lane_gives_more_than_was_asked_for
                a_tenant_stays_with_its_job many_jobs_that_are_kept_back_cost_the_others_nothing
            }
            schedules {
                a_schedule_comes_back_as_it_was_made a_schedule_fires_once_at_its_time
                of_many_nodes_that_fire_at_once_one_does whoever_lost_the_lease_fires_nothing
                a_change_moves_the_next_moment_and_its_keeper nobody_sees_the_schedules_of_others
                a_deleted_schedule_is_gone the_number_of_schedules_is_bounded
            }
            bulk {
                a_waiting_job_gets_another_place what_is_over_can_be_deleted
                lists_are_narrowed_further failed_jobs_are_found_by_their_error
                failed_jobs_are_counted_and_kept_as_long_as_their_kind
            }
            batches {
                a_job_waits_until_all_others_are_done a_fan_out_and_a_fan_in
                a_failure_is_followed_by_what_was_asked_for what_ended_before_counts_as_it_ended
                nobody_waits_for_the_jobs_of_others however_a_job_ends_those_that_wait_are_told
                a_batch_reports_and_calls_back_once a_retry_before_the_end_reopens_a_member
                wishes_of_a_batch_that_join_are_one_member of_many_last_ones_at_once_one_calls_back
                a_repeated_batch_is_made_once
            }
            audits {
                an_audit_follows_its_job what_was_found_comes_back_as_it_was_given
                whoever_lost_the_lease_writes_no_result what_it_ended_as_survives_the_job
                a_job_that_is_tried_again_makes_it_pending audits_are_listed_in_pages
                a_request_is_carried_out_once_and_within_its_limit
                the_previous_audit_of_a_page_is_found old_audits_are_forgotten
                each_time_of_a_recurring_audit_starts_one
            }
            audits_told {
                a_failed_audit_is_told_once_whatever_ends_it what_will_be_tried_again_is_not_told
                an_audit_that_fails_again_by_hand_is_told_again
                of_many_who_end_an_audit_at_once_one_tells_it
            }
            keys {
                many_at_once_get_one_key keys_are_apart_and_come_back_whole
            }
        }
    };
}

#[cfg(test)]
mod tests;
