// Runs in the meeting page before the page's own scripts. Looks after every change and tells what
// is new through the binding `roundsmanEvent`; `roundsmanWatcher` is what the bot calls.
(profile) => {
  if (window !== window.top || window.roundsmanWatcher) return;

  // A page that changes all the time is looked at this often and not more.
  const SETTLE_MS = 50;
  // What no change announces (a style sheet that hides something) is seen at the next look.
  const LOOK_MS = 1000;
  const NAME_CHARS_MAX = 255;
  const TEXT_CHARS_MAX = 8192;
  const PARTICIPANTS_MAX = 500;
  const CAPTIONS_MAX = 200;

  const say = (message) => window.roundsmanEvent(JSON.stringify(message));
  const isVisible = (element) => element.checkVisibility({ visibilityProperty: true });
  const all = (selector) => (selector ? Array.from(document.querySelectorAll(selector)) : []);
  const find = (selector) => all(selector).find(isVisible);
  const textOf = (element, selector, max) => {
    const part = selector ? element.querySelector(selector) : element;
    return ((part && part.textContent) || '').trim().slice(0, max);
  };
  const matches = (element, selector) => Boolean(selector) && element.matches(selector);

  const stages = ['removed', 'rejected', 'ended', 'left', 'admitted', 'lobby'];
  const stageNow = () =>
    stages.find((stage) => find(profile[stage])) || (find(profile.joinButton) ? 'prejoin' : 'loading');

  const participantsNow = () =>
    all(profile.participant).slice(0, PARTICIPANTS_MAX).map((element) => {
      const name = textOf(element, profile.participantName, NAME_CHARS_MAX);
      return {
        id: (profile.participantId && element.getAttribute(profile.participantId)) || name,
        name,
        is_self: matches(element, profile.participantSelf),
        is_speaking: matches(element, profile.participantSpeaking),
      };
    });

  const ids = new WeakMap();
  let idsGiven = 0;
  const captionId = (element) => {
    const given = profile.captionId && element.getAttribute(profile.captionId);
    if (given) return given;
    if (!ids.has(element)) ids.set(element, `caption-${++idsGiven}`);
    return ids.get(element);
  };
  const captionsNow = () =>
    all(profile.caption).slice(-CAPTIONS_MAX).map((element, index, list) => ({
      id: captionId(element),
      speaker: textOf(element, profile.captionSpeaker, NAME_CHARS_MAX),
      text: textOf(element, profile.captionText, TEXT_CHARS_MAX),
      is_completed: profile.captionCompleted
        ? element.matches(profile.captionCompleted)
        : index < list.length - 1,
    }));

  let toldStage;
  let toldParticipants;
  const toldCaptions = new Map();

  const tellCaption = (caption) => {
    const shown = JSON.stringify(caption);
    if (caption.text && toldCaptions.get(caption.id) !== shown) {
      toldCaptions.set(caption.id, shown);
      say({ kind: 'caption', ...caption });
    }
  };
  const tellCaptions = () => {
    const captions = captionsNow();
    captions.forEach(tellCaption);
    // A caption that was taken away will not change any more.
    const shown = new Set(captions.map((caption) => caption.id));
    for (const [id, text] of toldCaptions) {
      if (shown.has(id)) continue;
      const caption = JSON.parse(text);
      if (!caption.is_completed) say({ kind: 'caption', ...caption, is_completed: true });
      toldCaptions.delete(id);
    }
  };

  const look = () => {
    const stage = stageNow();
    if (stage !== toldStage) {
      toldStage = stage;
      say({ kind: 'stage', stage });
    }
    if (stage !== 'admitted') return;
    if (profile.participant) {
      const participants = participantsNow();
      const shown = JSON.stringify(participants);
      if (shown !== toldParticipants) {
        toldParticipants = shown;
        say({ kind: 'participants', participants });
      }
    }
    tellCaptions();
  };

  let isDue = false;
  const lookSoon = () => {
    if (isDue) return;
    isDue = true;
    setTimeout(() => {
      isDue = false;
      look();
    }, SETTLE_MS);
  };
  new MutationObserver(lookSoon).observe(document, {
    attributes: true, characterData: true, childList: true, subtree: true,
  });
  setInterval(() => {
    look();
    say({ kind: 'pulse' });
  }, LOOK_MS);
  document.addEventListener('DOMContentLoaded', look);

  window.roundsmanWatcher = {
    // Leaves the field selected, so that what is typed replaces what is there.
    focusName: () => {
      const input = find(profile.nameInput);
      if (!input) return false;
      input.focus();
      input.select();
      return true;
    },
    click: (name) => {
      const element = find(profile[name]);
      if (!element || element.disabled) return false;
      element.click();
      return true;
    },
  };
}
