console.error('the bakery is on fire');
throw new Error('no bread today');
