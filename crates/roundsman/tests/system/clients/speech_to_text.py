"""A small server that hears: OpenAI's POST /v1/audio/transcriptions over PocketSphinx.

Prints its port on standard output and serves until it is killed. It takes WAV files (16 bits, mono,
any rate) and answers as `verbose_json`: a segment for each stretch of speech, with its times.

The voice is a synthetic one and the model a small one, so that it knows what people say here.
"""

import array
import io
import json
import wave
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from pocketsphinx import Decoder, Endpointer

RATE = 16000
SILENCE = bytes(RATE)

GRAMMAR = """#JSGF V1.0;
grammar meetings;
public <said> = <greeting> | <answer> | the <thing> is <state> [ on <day> ];
<greeting> = good ( morning | evening ) everybody;
<answer> = ( yes | no ) thank you;
<thing> = report | budget | meeting | weather;
<state> = ready | over | terrible | wonderful;
<day> = monday | tuesday | wednesday | saturday;
"""


class Transcriptions(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.read_body()
        if self.path != "/v1/audio/transcriptions":
            return self.answer(404, {"error": {"message": "there is nothing here"}})
        form = parse_form(self.headers["content-type"], body)
        if form.get("response_format") != b"verbose_json" or "file" not in form:
            return self.answer(400, {"error": {"message": "only verbose_json, and with a file"}})
        try:
            samples, duration = read_wav(form["file"])
        except (wave.Error, EOFError) as error:
            return self.answer(400, {"error": {"message": f"no WAV file: {error}"}})
        segments = list(hear(samples))
        self.answer(200, {
            "task": "transcribe",
            "language": "english",
            "duration": duration,
            "text": " ".join(segment["text"] for segment in segments),
            "segments": segments,
        })

    def read_body(self):
        if "content-length" in self.headers:
            return self.rfile.read(int(self.headers["content-length"]))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def answer(self, status, content):
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


def parse_form(content_type, body):
    head = f"content-type: {content_type}\r\n\r\n".encode()
    parts = BytesParser(policy=HTTP).parsebytes(head + body).iter_parts()
    name = "content-disposition"
    return {part.get_param("name", header=name): part.get_payload(decode=True) for part in parts}


def read_wav(content):
    """Samples at the rate of the model, and how many seconds they last."""
    with wave.open(io.BytesIO(content)) as file:
        if file.getsampwidth() != 2 or file.getnchannels() != 1:
            raise wave.Error("not 16 bits, mono")
        rate = file.getframerate()
        heard = array.array("h", file.readframes(file.getnframes()))
    duration = len(heard) / rate
    count = int(duration * RATE)
    places = (index * rate / RATE for index in range(count))
    samples = array.array("h", (between(heard, place) for place in places))
    return samples.tobytes(), duration


def between(samples, place):
    index = int(place)
    following = samples[min(index + 1, len(samples) - 1)]
    return int(samples[index] + (following - samples[index]) * (place - index))


def hear(samples):
    """What is said in each stretch that is not silence."""
    endpointer = Endpointer(sample_rate=RATE)
    decoder = Decoder(samprate=RATE, lm=None, loglevel="FATAL")
    decoder.add_jsgf_string("meetings", GRAMMAR)
    decoder.activate_search("meetings")
    # Silence at the end lets it notice the end of the last stretch.
    source = io.BytesIO(samples + SILENCE)
    number = 0
    while frame := source.read(endpointer.frame_bytes):
        was_speech = endpointer.in_speech
        is_last = len(frame) < endpointer.frame_bytes
        speech = endpointer.end_stream(frame) if is_last else endpointer.process(frame)
        if speech is None:
            continue
        if not was_speech:
            decoder.start_utt()
        decoder.process_raw(speech)
        if not endpointer.in_speech:
            decoder.end_utt()
            said = decoder.hyp()
            if said is not None and said.hypstr:
                start, end = endpointer.speech_start, endpointer.speech_end
                yield {"id": number, "start": start, "end": end, "text": said.hypstr}
                number += 1


def main():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Transcriptions)
    print(server.server_port, flush=True)
    server.serve_forever()


main()
